"""The standalone login: whoever signs a challenge with an Sr25519 key may speak for that key.

A challenge is 56 bytes, in base64url without padding:

    nonce     16 bytes, random
    expiry     8 bytes, UNIX seconds, big-endian
    seal      32 bytes, HMAC-SHA256 over `clarion challenge v1`, a zero byte, client id, nonce, expiry

so handing one out stores nothing, and nobody fills a table by asking. What the client signs names the service, the
client and the purpose, so that the signature is good for nothing else; docs/api.md gives it byte for byte.
"""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import StrEnum
from typing import NamedTuple

import jwt
import sr25519

from api.identity import IDENTITY

CHALLENGE_SECONDS = 120
TOKEN_SECONDS = 3600
PADDING = "="
NONCE_BYTES, EXPIRY_BYTES, SEAL_BYTES = 16, 8, 32
_PURPOSE = b"clarion challenge v1\0"


class LoginRefusal(StrEnum):
    NOT_OURS = "the challenge was not made here for this client"
    EXPIRED = "the challenge has expired"
    BAD_SIGNATURE = "the signature is not the client's over this challenge"
    USED = "the challenge has been used"


def issuer_name(domain: str) -> str:
    """What the login calls itself in its tokens: as issuer and as audience."""
    return f"https://{domain}"


def message(domain: str, client_id: bytes, challenge: str) -> bytes:
    """What the client signs, in Substrate's signing context.

    The brackets are those that Polkadot wallets put around what is no transaction, and no statement starts with them.
    """
    lines = ("clarion login v1", f"domain: {domain}", f"client: {client_id.hex()}", f"challenge: {challenge}")
    return f"<Bytes>{'\n'.join(lines)}</Bytes>".encode()


def challenge_for(client_id: bytes, secret: str, now: int) -> str:
    """`now` is in UNIX seconds."""
    stated = secrets.token_bytes(NONCE_BYTES) + (now + CHALLENGE_SECONDS).to_bytes(EXPIRY_BYTES)
    return urlsafe_b64encode(stated + _seal(client_id, stated, secret)).rstrip(b"=").decode()


class Valid(NamedTuple):
    """A challenge of ours; `expiry` is in UNIX seconds."""

    nonce: bytes
    expiry: int


def check(challenge: str, client_id: bytes, secret: str, now: int) -> Valid | LoginRefusal:
    """Whether the challenge was made for this client and still holds. `now` is in UNIX seconds."""
    try:
        raw = urlsafe_b64decode(challenge + PADDING)
    except ValueError:
        return LoginRefusal.NOT_OURS
    stated, seal = raw[:-SEAL_BYTES], raw[-SEAL_BYTES:]
    if len(stated) != NONCE_BYTES + EXPIRY_BYTES or not hmac.compare_digest(seal, _seal(client_id, stated, secret)):
        return LoginRefusal.NOT_OURS
    nonce, expiry = stated[:NONCE_BYTES], int.from_bytes(stated[NONCE_BYTES:])
    return Valid(nonce, expiry) if now < expiry else LoginRefusal.EXPIRED


def signed(signature: bytes, text: bytes, client_id: bytes) -> bool:
    if client_id == IDENTITY:
        return False
    try:
        valid: bool = sr25519.verify(signature, text, client_id)
    except ValueError:  # bytes that are no curve point, no scalar, or not marked as Sr25519
        return False
    return valid


def token_for(client_id: bytes, domain: str, secret: str, now: int) -> str:
    """A bearer token for `TOKEN_SECONDS`. `now` is in UNIX seconds."""
    issuer = issuer_name(domain)
    claims = {"iss": issuer, "aud": issuer, "sub": client_id.hex(), "iat": now, "exp": now + TOKEN_SECONDS}
    return jwt.encode(claims, secret, algorithm="HS256")


def _seal(client_id: bytes, stated: bytes, secret: str) -> bytes:
    return hmac.digest(secret.encode(), _PURPOSE + client_id + stated, "sha256")
