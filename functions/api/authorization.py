"""Who may pass: the authorizer of the HTTP API (payload 2.0, simple responses).

It lets every request through and says in the context who sent it (`client_id`), why that is unknown (`refusal`), or
that it can't be known now (`unavailable`): API Gateway would answer a refusal itself, and not as problem details. The
API function serves nobody without a `client_id`. The keys of all issuers stay here.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit
from botocore.exceptions import BotoCoreError, ClientError

from api.identity import Issuer, Refusal, SharedSecret, bearer, identify
from api.jwks import KeysUnavailable, PublicKeys, fetch
from api.login import issuer_name
from api.settings import AuthorizerSettings
from clarion.issuers import JwksIssuer
from clarion.metrics import Metric, metrics_of
from clarion.secrets import Secret, SecretError

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

NO_KEY = (SecretError, BotoCoreError, ClientError, KeysUnavailable)
"""What comes of a secret or a set of public keys that can't be read, or holds something else, such as a page of HTML."""

logger = Logger(service="authorizer")


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
