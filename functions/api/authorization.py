"""Who may pass: the authorizer of the HTTP API (payload 2.0, simple responses).

It lets every request through and says in the context who sent it (`client_id`) or why that is unknown (`refusal`):
API Gateway would answer a refusal itself, and not as problem details. The API function serves nobody without a
`client_id`. The keys stay here: the function that reads and writes subscriptions can't vouch for anyone.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from api.identity import Issuer, Refusal, bearer, identify
from api.settings import AuthorizerSettings

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

KEEP_SECONDS = 300
"""How long a secret is kept: a rotated one counts from then on."""


class Authorizer:
    def __init__(
        self,
        settings: AuthorizerSettings,
        secrets: "SecretsManagerClient",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._clock = clock
        self._issuers: Mapping[str, Issuer] = {}
        self._read_at = -float("inf")

    def __call__(self, event: Mapping[str, Any]) -> dict[str, Any]:
        found = identify(bearer(event.get("headers") or {}), self._current())
        context = {"refusal": found.value} if isinstance(found, Refusal) else {"client_id": found.hex()}
        return {"isAuthorized": True, "context": context}

    def _current(self) -> Mapping[str, Issuer]:
        if self._clock() - self._read_at > KEEP_SECONDS:
            secret = self._secrets.get_secret_value(SecretId=self._settings.jwt_secret_id)["SecretString"]
            name = self._settings.jwt_issuer
            self._issuers = {name: Issuer(name, ["HS256"], json.loads(secret)["secret"])}
            self._read_at = self._clock()
        return self._issuers
