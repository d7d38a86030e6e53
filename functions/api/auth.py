"""`/v1/auth`: sign in with an Sr25519 key, where no other solution hands out tokens."""

from http import HTTPStatus

from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from api import login, quotas
from api.described import WITH_BODY, answers
from api.login import LoginRefusal
from api.problems import Kind, Problem
from api.room import Login, Room
from api.shapes import Challenge, ChallengeRequest, SignedChallenge, Token

router = APIGatewayHttpRouter()
TAGS = ["auth"]


@router.post(
    "/v1/auth/challenges",
    status_code=HTTPStatus.CREATED,
    summary="Ask for something to sign",
    operation_id="askForChallenge",
    tags=TAGS,
    responses=answers(HTTPStatus.CREATED, Challenge, [*WITH_BODY, Kind.LOGIN_OFF]),
)
def challenge(body: ChallengeRequest) -> Challenge:
    """A challenge is good for two minutes and for one token."""
    room, service = _open()
    now = room.now() // 1000
    made = login.challenge_for(body.client_id, service.secret, now)
    text = login.message(service.domain, body.client_id, made)
    return Challenge(challenge=made, message=text.decode(), expires_at=now + login.CHALLENGE_SECONDS)


@router.post(
    "/v1/auth/tokens",
    status_code=HTTPStatus.CREATED,
    summary="Get a bearer token for a signed challenge",
    operation_id="signIn",
    tags=TAGS,
    responses=answers(HTTPStatus.CREATED, Token, [*WITH_BODY, Kind.LOGIN_FAILED, Kind.LOGIN_OFF]),
)
def token(body: SignedChallenge) -> Token:
    """The signature is Sr25519, in Substrate's signing context, over the challenge's message."""
    room, service = _open()
    now = room.now() // 1000
    refusal = _refusal(body, service, now)
    if refusal:
        raise Problem(Kind.LOGIN_FAILED, refusal)
    return Token(
        token=login.token_for(body.client_id, service.domain, service.secret, now),
        token_type="Bearer",  # noqa: S106 - a scheme, not a secret
        expires_in=login.TOKEN_SECONDS,
    )


def _open() -> tuple[Room, Login]:
    room: Room = router.context["room"]
    if room.login is None:
        raise Problem(Kind.LOGIN_OFF)
    return room, room.login


def _refusal(body: SignedChallenge, service: Login, now: int) -> LoginRefusal | None:
    """A challenge counts as used only with a good signature: nobody can use up another's."""
    valid = login.check(body.challenge, body.client_id, service.secret, now)
    if isinstance(valid, LoginRefusal):
        return valid
    text = login.message(service.domain, body.client_id, body.challenge)
    if not login.signed(body.signature, text, body.client_id):
        return LoginRefusal.BAD_SIGNATURE
    fresh = quotas.once(f"challenge:{valid.nonce.hex()}", until=valid.expiry)
    return None if fresh else LoginRefusal.USED
