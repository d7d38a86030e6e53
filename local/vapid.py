"""How a push service judges who sends: the `vapid` authorization of a request.

https://www.rfc-editor.org/rfc/rfc8292
"""

import re
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from clarion import base64url

_LIFETIME = 24 * 3600
_CREDENTIALS = re.compile(r"vapid +(?P<parameters>.*)", re.IGNORECASE)
_PARAMETER = re.compile(r"\s*(?P<name>[a-z]+)=(?P<value>[A-Za-z0-9_.-]+)\s*")
_CONTACT = re.compile(r"mailto:[^@\s<>]+@[^@\s<>]+|https://[^\s/]+\S*")


def public_key_of(point: bytes) -> ec.EllipticCurvePublicKey:
    """The key of 65 bytes, an uncompressed point of P-256; raises `ValueError` for any others."""
    if len(point) != 65:
        raise ValueError("a key has 65 bytes")
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)


def authorization_flaw(
    authorization: str | None, *, application_server_key: str, origin: str, now: float
) -> str | None:
    """Why the header does not entitle to a subscription made with this key; the reasons are those of `local.webpush`.

    `origin` is the push service's own.
    """
    found = _CREDENTIALS.fullmatch(authorization or "")
    if found is None:
        return "MissingAuthorization"
    matches = [_PARAMETER.fullmatch(parameter) for parameter in found["parameters"].split(",")]
    parameters = {match["name"]: match["value"] for match in matches if match}
    if parameters.keys() != {"t", "k"} or len(matches) != len(parameters):
        return "BadAuthorization"
    try:
        claims = _claims(parameters["t"], parameters["k"], origin)
    except jwt.InvalidAudienceError:
        return "BadAudience"
    except (jwt.InvalidTokenError, ValueError):
        return "BadToken"
    if flaw := _claims_flaw(claims, now):
        return flaw
    return None if base64url.decode(parameters["k"]) == base64url.decode(application_server_key) else "KeyMismatch"


def _claims(token: str, key: str, origin: str) -> dict[str, Any]:
    return jwt.decode(
        token,
        public_key_of(base64url.decode(key)),
        algorithms=["ES256"],
        audience=origin,
        # `exp` goes by a clock of our own, below
        options={"require": ["aud", "exp", "sub"], "verify_exp": False, "verify_iat": False},
    )


def _claims_flaw(claims: dict[str, Any], now: float) -> str | None:
    expires = claims["exp"]
    if not isinstance(expires, int):
        return "BadToken"
    if expires <= now:
        return "ExpiredToken"
    if expires > now + _LIFETIME:
        return "TokenLivesTooLong"
    return None if _CONTACT.fullmatch(claims["sub"]) else "BadSubject"
