"""Secrets of AWS Secrets Manager, typed, kept for minutes so that a rotation is picked up without a deployment."""

import time
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_secretsmanager import SecretsManagerClient

MAX_AGE = 300.0
"""Seconds; as long may a rotated secret go unnoticed by those who get no rejection for the old one."""
RETRY_SECONDS = 30.0
"""After a failed look, as long is what was last good used without another."""


class SecretError(Exception):
    """The secret's text is not what it should be. Says what is wrong, never what it holds."""


class SharedSecret(BaseModel):
    """Of HS256, which wants 32 bytes at least; https://www.rfc-editor.org/rfc/rfc7518#section-3.2"""

    model_config = ConfigDict(frozen=True)

    secret: SecretStr = Field(min_length=32)


class OriginSecret(SharedSecret):
    """What CloudFront sends the API. While it is replaced, the `previous` one is good as well."""

    previous: SecretStr | None = Field(default=None, min_length=32)

    @property
    def accepted(self) -> list[bytes]:
        return [each.get_secret_value().encode() for each in (self.secret, self.previous) if each]


class Secret[Value: BaseModel]:
    """One secret whose text is the JSON of `model`. Errors of the AWS client are passed on."""

    def __init__(
        self,
        client: "SecretsManagerClient",
        secret_id: str,
        model: type[Value],
        clock: "Callable[[], float]" = time.time,
    ) -> None:
        self._client = client
        self._secret_id = secret_id
        self._model = model
        self._clock = clock
        self._value: Value | None = None
        self._look_at = 0.0
        self.version: str | None = None

    def get(self) -> Value:
        """At most `MAX_AGE` seconds old, or what was last good if it can't be read or used now."""
        if self._value is not None and self._clock() <= self._look_at:
            return self._value
        try:
            return self.reread()
        except (SecretError, BotoCoreError, ClientError):
            if self._value is None:
                raise
            self._look_at = self._clock() + RETRY_SECONDS
            return self._value

    def reread(self) -> Value:
        """As it is now."""
        answer = self._client.get_secret_value(SecretId=self._secret_id)
        if self._value is None or answer["VersionId"] != self.version:
            self._value = self._parse(answer["SecretString"])
            self.version = answer["VersionId"]
        self._look_at = self._clock() + MAX_AGE
        return self._value

    def _parse(self, text: str) -> Value:
        try:
            return self._model.model_validate_json(text)
        except ValidationError as error:
            faults = ", ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['type']}" for fault in error.errors())
            raise SecretError(f"{self._secret_id} is no {self._model.__name__} ({faults})") from None
