"""Bearer tokens: whose word counts, and which client it vouches for."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import jwt
import sr25519
from pydantic import BaseModel, ConfigDict, Field, SecretStr

HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
IDENTITY = bytes(32)
"""Under this point as public key a signature of zeros holds for every message."""
_ANY_SIGNATURE = bytes(63) + b"\x80"
LEEWAY_SECONDS = 30
"""How far the clocks of an issuer and of this service may differ."""


class Refusal(StrEnum):
    MISSING = "no bearer token"
    NOT_A_TOKEN = "not a JSON Web Token"  # noqa: S105 - says what is wrong with one
    UNKNOWN_ISSUER = "the token's issuer is not trusted here"
    WRONG_AUDIENCE = "the token is for another service"
    EXPIRED = "the token has expired"
    TOO_LONG = "the token is good for longer than this service allows"
    NOT_YET = "the token is from the future"
    INVALID = "the token's signature or claims are not valid"
    NOT_A_CLIENT = "the token's subject is not an Sr25519 public key in hex"


class SharedSecret(BaseModel):
    """HS256 wants 32 bytes at least; https://www.rfc-editor.org/rfc/rfc7518#section-3.2"""

    model_config = ConfigDict(frozen=True)

    secret: SecretStr = Field(min_length=32)


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose tokens count, and what they must show. `key` finds the key for a token: a secret, or a public key.

    The algorithms stand here and never in the token alone, so nobody can turn a public key into a shared secret.
    """

    name: str
    audience: str
    algorithms: Collection[str]
    key: Callable[[str], jwt.PyJWK | str] = field(repr=False)


def bearer(headers: Mapping[str, str]) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def identify(token: str | None, issuers: Mapping[str, Issuer], lifetime: int) -> bytes | Refusal:
    """The client's public key, 32 bytes, if a trusted issuer vouches for it now, in a token for at most `lifetime` s.

    Raises what the issuer's `key` raises when it can't be had.
    """
    if token is None:
        return Refusal.MISSING
    try:
        claims = _claims(token, issuers)
        subject = str(claims["sub"])
        seconds = int(claims["exp"]) - int(claims["iat"])
    except (RecursionError, OverflowError):
        return Refusal.NOT_A_TOKEN
    except (jwt.InvalidTokenError, jwt.PyJWKClientError) as error:
        return next((refusal for kind, refusal in _REFUSALS if isinstance(error, kind)), Refusal.INVALID)
    if seconds > lifetime:
        return Refusal.TOO_LONG
    found = HEX.fullmatch(subject)
    client_id = bytes.fromhex(found[1]) if found else b""
    return client_id if is_public_key(client_id) else Refusal.NOT_A_CLIENT


def is_public_key(candidate: bytes) -> bool:
    """Whether it encodes a point of the group other than its identity, whose secret key everybody knows.

    Verifying reads the key first, and raises if that fails (https://www.rfc-editor.org/rfc/rfc9496#section-4.3.1).
    """
    try:
        sr25519.verify(_ANY_SIGNATURE, b"", candidate)
    except ValueError:
        return False
    return candidate != IDENTITY


_REFUSALS = (
    (jwt.ExpiredSignatureError, Refusal.EXPIRED),
    (jwt.ImmatureSignatureError, Refusal.NOT_YET),
    (jwt.InvalidIssuerError, Refusal.UNKNOWN_ISSUER),
    (jwt.InvalidAudienceError, Refusal.WRONG_AUDIENCE),
    (jwt.InvalidSignatureError, Refusal.INVALID),
    (jwt.DecodeError, Refusal.NOT_A_TOKEN),
)
"""The first that fits, as PyJWT's errors descend from each other."""


def _claims(token: str, issuers: Mapping[str, Issuer]) -> dict[str, Any]:
    """What the token says of itself only chooses the issuer, whose key and algorithms then decide."""
    name = jwt.decode(token, options={"verify_signature": False}).get("iss")
    issuer = issuers.get(name) if isinstance(name, str) else None
    if issuer is None:
        raise jwt.InvalidIssuerError
    claims: dict[str, Any] = jwt.decode(
        token,
        issuer.key(token),
        algorithms=list(issuer.algorithms),
        issuer=issuer.name,
        audience=issuer.audience,
        leeway=LEEWAY_SECONDS,
        options={"require": ["aud", "exp", "iat", "iss", "sub"]},
    )
    return claims
