"""`/v1/auth`, the standalone login: whoever signs a challenge with an Sr25519 key may speak for that key.

A challenge is 56 bytes, in base64url without padding:

    nonce     16 bytes, random
    expiry     8 bytes, UNIX seconds, big-endian
    seal      32 bytes, HMAC-SHA256 over `clarion challenge v1`, a zero byte, client id, nonce, expiry

so handing one out stores nothing, and nobody fills a table by asking. What the client signs names the service, the
client and the purpose, so that the signature is good for nothing else; docs/api.md gives it byte for byte.
"""

import hmac
import secrets
from enum import StrEnum
from http import HTTPStatus
from typing import Literal, NamedTuple

import jwt
import sr25519
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import BaseModel, ConfigDict, Field

from api import quotas
from api.authorization import IDENTITY
from api.bodies import Key, RequestBody, Signature
from api.openapi import WITH_BODY, answers
from api.problems import Problem, ProblemKind
from api.worker import ApiRequest, Login, current
from clarion import base64url
from clarion.issuers import issuer_name

CHALLENGE_SECONDS = 120
TOKEN_SECONDS = 3600
NONCE_BYTES, EXPIRY_BYTES, SEAL_BYTES = 16, 8, 32
_PURPOSE = b"clarion challenge v1\0"

router = APIGatewayHttpRouter()
TAGS = ["auth"]


class LoginRefusal(StrEnum):
    NOT_OURS = "the challenge was not made here for this client"
    EXPIRED = "the challenge has expired"
    BAD_SIGNATURE = "the signature is not the client's over this challenge"
    USED = "the challenge has been used"


def message(domain: str, client_id: bytes, challenge: str) -> bytes:
    """What the client signs, in Substrate's signing context.

    The brackets are those that Polkadot wallets put around what is no transaction, and no statement starts with them.
    """
    lines = ("clarion login v1", f"domain: {domain}", f"client: {client_id.hex()}", f"challenge: {challenge}")
    return f"<Bytes>{'\n'.join(lines)}</Bytes>".encode()


def challenge_for(client_id: bytes, secret: str, now: int) -> str:
    """`now` is in UNIX seconds."""
    stated = secrets.token_bytes(NONCE_BYTES) + (now + CHALLENGE_SECONDS).to_bytes(EXPIRY_BYTES)
    return base64url.encode(stated + _seal(client_id, stated, secret))


class Valid(NamedTuple):
    """A challenge of ours; `expiry` is in UNIX seconds."""

    nonce: bytes
    expiry: int


def check(challenge: str, client_id: bytes, secret: str, now: int) -> Valid | LoginRefusal:
    """Whether the challenge was made for this client and still holds. `now` is in UNIX seconds."""
    try:
        raw = base64url.decode(challenge)
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


class ChallengeRequest(RequestBody):
    client_id: Key


class Challenge(BaseModel):
    """`message` is what to sign; a careful client builds it itself. `expires_at` is in UNIX seconds."""

    challenge: str
    message: str
    expires_at: int


class SignedChallenge(RequestBody):
    client_id: Key
    challenge: str = Field(max_length=200)
    signature: Signature


class SignInToken(BaseModel):
    """`expires_in` is in seconds."""

    model_config = ConfigDict(title="Token")

    token: str = Field(repr=False)
    token_type: Literal["Bearer"]
    expires_in: int


@router.post(
    "/v1/auth/challenges",
    status_code=HTTPStatus.CREATED,
    summary="Ask for something to sign",
    operation_id="askForChallenge",
    tags=TAGS,
    responses=answers(HTTPStatus.CREATED, Challenge, [*WITH_BODY, ProblemKind.LOGIN_OFF]),
)
def challenge(body: ChallengeRequest) -> Challenge:
    """A challenge is good for two minutes and for one token."""
    request, service = _open()
    now = request.worker.now() // 1000
    made = challenge_for(body.client_id, service.secret, now)
    text = message(service.domain, body.client_id, made)
    return Challenge(challenge=made, message=text.decode(), expires_at=now + CHALLENGE_SECONDS)


@router.post(
    "/v1/auth/tokens",
    status_code=HTTPStatus.CREATED,
    summary="Get a bearer token for a signed challenge",
    operation_id="signIn",
    tags=TAGS,
    responses=answers(HTTPStatus.CREATED, SignInToken, [*WITH_BODY, ProblemKind.LOGIN_FAILED, ProblemKind.LOGIN_OFF]),
)
def token(body: SignedChallenge) -> SignInToken:
    """The signature is Sr25519, in Substrate's signing context, over the challenge's message."""
    request, service = _open()
    now = request.worker.now() // 1000
    refusal = _refusal(body, service, now)
    if refusal:
        raise Problem(ProblemKind.LOGIN_FAILED, refusal)
    return SignInToken(
        token=token_for(body.client_id, service.domain, service.secret, now),
        token_type="Bearer",  # noqa: S106 - a scheme, not a secret
        expires_in=TOKEN_SECONDS,
    )


def _open() -> tuple[ApiRequest, Login]:
    request = current()
    if request.worker.login is None:
        raise Problem(ProblemKind.LOGIN_OFF)
    return request, request.worker.login


def _refusal(body: SignedChallenge, service: Login, now: int) -> LoginRefusal | None:
    """A challenge counts as used only with a good signature: nobody can use up another's."""
    valid = check(body.challenge, body.client_id, service.secret, now)
    if isinstance(valid, LoginRefusal):
        return valid
    text = message(service.domain, body.client_id, body.challenge)
    if not signed(body.signature, text, body.client_id):
        return LoginRefusal.BAD_SIGNATURE
    fresh = quotas.once(f"challenge:{valid.nonce.hex()}", until=valid.expiry)
    return None if fresh else LoginRefusal.USED
