"""Who may pass: bearer tokens, and the authorizer of the HTTP API (payload 2.0, simple responses) that checks them.

The authorizer lets every request through and says in the context who sent it (`client_id`), why that is unknown
(`refusal`), or that it can't be known now (`unavailable`): API Gateway would answer a refusal itself, and not as problem
details. The API function serves nobody without a `client_id`. The keys of all issuers stay here.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import jwt
import sr25519
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit
from botocore.exceptions import BotoCoreError, ClientError

from api.jwks import KeysUnavailable, PublicKeys, fetch
from api.settings import AuthorizerSettings
from clarion.issuers import JwksIssuer, issuer_name
from clarion.metrics import Metric, metrics_of
from clarion.secrets import Secret, SecretError, SharedSecret

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
IDENTITY = bytes(32)
"""Under this point as public key a signature of zeros holds for every message."""
_ANY_SIGNATURE = bytes(63) + b"\x80"
LEEWAY_SECONDS = 30
"""How far the clocks of an issuer and of this service may differ."""
NO_KEY = (SecretError, BotoCoreError, ClientError, KeysUnavailable)
"""What comes of a secret or a set of public keys that can't be read, or holds something else, such as a page of HTML."""

logger = Logger(service="authorizer")


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


class Authorizer:
    def __init__(self, settings: AuthorizerSettings, secrets: "SecretsManagerClient") -> None:
        self._metrics = metrics_of("authorizer", settings.stage)
        self._lifetime = settings.token_lifetime_seconds
        self._issuers = {issuer.name: issuer for issuer in _issuers(settings, secrets)}

    def __call__(self, event: Mapping[str, Any]) -> dict[str, Any]:
        return {"isAuthorized": True, "context": self._context(event.get("headers") or {})}

    def _context(self, headers: Mapping[str, str]) -> dict[str, str]:
        try:
            found = identify(bearer(headers), self._issuers, self._lifetime)
        except NO_KEY:
            logger.exception("the key of an issuer can't be had")
            self._metrics.add_metric(Metric.KEYS_UNAVAILABLE, MetricUnit.Count, 1)
            self._metrics.flush_metrics()
            return {"unavailable": "the issuer's keys"}
        return {"refusal": found.value} if isinstance(found, Refusal) else {"client_id": found.hex()}


def _issuers(settings: AuthorizerSettings, secrets: "SecretsManagerClient") -> Iterator[Issuer]:
    if settings.jwt_secret_id and settings.jwt_audience:
        yield _sharing(secrets, settings.jwt_secret_id, settings.jwt_issuer, settings.jwt_audience)
    if settings.login_secret_id and settings.login_domain:
        name = issuer_name(settings.login_domain)
        yield _sharing(secrets, settings.login_secret_id, name, name)
    for one in settings.issuers:
        yield _publishing(one)


def _sharing(secrets: "SecretsManagerClient", secret_id: str, name: str, audience: str) -> Issuer:
    secret = Secret(secrets, secret_id, SharedSecret)
    return Issuer(name, audience, {"HS256"}, lambda _: secret.get().secret.get_secret_value())


def _publishing(one: JwksIssuer) -> Issuer:
    return Issuer(one.issuer, one.audience, one.algorithms, PublicKeys(partial(fetch, str(one.jwks_url))))
