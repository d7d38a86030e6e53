"""The tokens that wallets, dapps and the Notify server sign for each other: did-jwts with Ed25519.

    {"alg":"EdDSA","typ":"JWT"} . {"iat":…,"exp":…,"iss":"did:key:z6Mk…","act":"notify_subscription",…} . signature

The claim `iss` names the key that signs; the key's CACAO names the account (`identity`). A token that differs from the
product document in any way is refused, also where the deployed server lets it pass: an audience or a lifetime that is
not the stated one, a base64 with padding or bits to spare. An expired request is not answered.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic_core import from_json

from clarion import base64url, compact_json
from clarion.networks.walletconnect.acts import ACTS, ClaimCheck, Profile, is_integer, is_text
from clarion.networks.walletconnect.did import KeyType, MalformedDid, key_of, public_did

ALGORITHM = "EdDSA"
HEADER = {"alg": ALGORITHM, "typ": "JWT"}
CLOCK_SKEW = 60
"""Seconds by which a token may come from the future."""
_SHARED_CLAIMS = {"iat": is_integer, "exp": is_integer, "iss": is_text, "act": is_text}


class JwtFlaw(StrEnum):
    MALFORMED = "malformed"
    BAD_ALG = "bad_alg"
    MISSING_CLAIM = "missing_claim"
    BAD_ISS = "bad_iss"
    BAD_SIGNATURE = "bad_signature"
    WRONG_ACT = "wrong_act"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    BAD_TTL = "bad_ttl"
    WRONG_AUD = "wrong_aud"
    WRONG_APP = "wrong_app"


class InvalidJwt(ValueError):  # noqa: N818 - it names what was received, as `Malformed` does
    """`reason` is the first flaw that was found. The text holds nothing of the token."""

    def __init__(self, reason: JwtFlaw) -> None:
        super().__init__(reason)
        self.reason = reason


class _Parts(NamedTuple):
    """Of a token that nobody has verified yet."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signature: str


def verify(  # noqa: PLR0913 - each by name
    token: str, *, act: str, now: float, audience: str | None, app: str | None, profile: Profile
) -> Mapping[str, object]:
    """The claims of a token for `act`, as `audience` (a DID) and `app` (a did:web) may get it at `now` in UNIX seconds.

    Neither `audience` nor `app` is checked if it is None. Raises `InvalidJwt`; `LookupError` for an act that the
    profile doesn't have.
    """
    expected = ACTS[profile][act]
    claims = _signed_claims(token)
    if claims["act"] != act:
        raise InvalidJwt(JwtFlaw.WRONG_ACT)
    _check(claims, expected.claims)
    if flaw := next(_flaws(claims, expected.ttl, now, audience, app), None):
        raise InvalidJwt(flaw)
    return claims


def issue(key: Ed25519PrivateKey, claims: Mapping[str, object], *, act: str, now: int, profile: Profile) -> str:
    """A token that `verify` takes from `now` on; `claims` are the act's but for `iat`, `exp`, `iss` and `act`."""
    lifetime = {"iat": now, "exp": now + ACTS[profile][act].ttl}
    return sign(key, {**claims, **lifetime, "iss": public_did(key), "act": act})


def sign(key: Ed25519PrivateKey, claims: Mapping[str, object]) -> str:
    """A token with these claims, whatever they are."""
    signed = f"{_encoded(HEADER)}.{_encoded(claims)}"
    return f"{signed}.{base64url.encode(key.sign(signed.encode()))}"


def profile_of(token: str) -> Profile:
    """Of a request that is yet to be verified: only the shipped protocol has versions. Raises `InvalidJwt`."""
    return "shipped" if "mjv" in _read(token).claims else "document"


def subscription_hash(token: str) -> str:
    """What the document knows a subscription by, in `sub`: the hash of the token that made it."""
    return sha256(token.encode()).hexdigest()


def message_hash(message: Mapping[str, object]) -> str:
    """What a receipt of the document names in `sub`: the `msg` that it is for, with its members in the order sent."""
    return sha256(compact_json.encode(message)).hexdigest()


def _signed_claims(token: str) -> dict[str, Any]:
    header, claims, signature = _read(token)
    if header.get("alg") != ALGORITHM:
        raise InvalidJwt(JwtFlaw.BAD_ALG)
    if header != HEADER:
        raise InvalidJwt(JwtFlaw.MALFORMED)
    _check(claims, _SHARED_CLAIMS)
    try:
        key = Ed25519PublicKey.from_public_bytes(key_of(claims["iss"], KeyType.ED25519))
        key.verify(_canonical(signature), token.rpartition(".")[0].encode())
    except MalformedDid:
        raise InvalidJwt(JwtFlaw.BAD_ISS) from None
    except (InvalidSignature, ValueError):
        raise InvalidJwt(JwtFlaw.BAD_SIGNATURE) from None
    return claims


def _check(claims: Mapping[str, object], checks: Mapping[str, ClaimCheck]) -> None:
    for name, check in checks.items():
        if not check(claims.get(name)):
            raise InvalidJwt(JwtFlaw.MALFORMED if name in claims else JwtFlaw.MISSING_CLAIM)


def _flaws(claims: Mapping[str, Any], ttl: int, now: float, audience: str | None, app: str | None) -> Iterator[JwtFlaw]:
    if claims["exp"] <= now:
        yield JwtFlaw.EXPIRED
    if claims["iat"] > now + CLOCK_SKEW:
        yield JwtFlaw.NOT_YET_VALID
    if claims["exp"] - claims["iat"] != ttl:
        yield JwtFlaw.BAD_TTL
    if audience is not None and claims.get("aud") != audience:
        yield JwtFlaw.WRONG_AUD
    if app is not None and claims.get("app") != app:
        yield JwtFlaw.WRONG_APP


def _read(token: str) -> _Parts:
    try:
        header, claims, signature = token.split(".")
        base64url.decode(signature)
        return _Parts(_object(header), _object(claims), signature)
    except ValueError:
        raise InvalidJwt(JwtFlaw.MALFORMED) from None


def _object(segment: str) -> dict[str, Any]:
    read = from_json(_canonical(segment), allow_inf_nan=False)
    if not isinstance(read, dict):
        raise ValueError("not an object")  # noqa: TRY004 - of what was received, not of an argument
    return read


def _canonical(segment: str) -> bytes:
    raw = base64url.decode(segment)
    if base64url.encode(raw) != segment:
        raise ValueError("bits to spare")
    return raw


def _encoded(content: Mapping[str, object]) -> str:
    return base64url.encode(compact_json.encode(content))
