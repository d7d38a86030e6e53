"""The webhook: one URL of the deployment's operator, which takes pushes that no phone's provider is to have.

Requests are signed as Standard Webhooks has it, so that any of its libraries checks them, and carry the Authorization
header that the operator configured. Which client they are for is a header, signed likewise, as the body is the
network's. What the receiver does with them: docs/webhook.md.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
import json
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from http.client import responses
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from clarion import compact_json
from clarion.addresses import WebhookAddress
from clarion.channels import CHANNELS, Channel
from clarion.providers.apps import Apps, AppSettings
from clarion.providers.credentials import SECRET_FAULTS, Clock, Credential, Unavailable, without_secret
from clarion.providers.order import Order
from clarion.providers.outcomes import (
    CredentialRejected,
    Delivered,
    FirstAnswer,
    Misconfigured,
    Refused,
    RetryLater,
)
from clarion.providers.transport import Answer, Fault, Request, Result
from clarion.secrets import Secret
from clarion.settings import TITLE

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

REJECTED = {401, 403}
"""The answer to every request if the receiver has another secret than we have."""
RETRY = {408, 425, 429}
MOVED = range(300, 400)
"""No redirect is followed: the operator has to configure the URL where it leads."""

MAX_BODY_BYTES = CHANNELS[Channel.WEBHOOK].payload_bytes + 8 * 1024
"""Of a request: its payload, and the address, some of whose characters JSON spells in six bytes."""

_KEY_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)
"""As many as Standard Webhooks lets a key have."""


def _key(value: object) -> bytes:
    if isinstance(value, str):
        key = b64decode(value.removeprefix(_KEY_PREFIX), validate=True)
        if len(key) in _KEY_BYTES:
            return key
    raise ValueError("not 24 to 64 bytes in base64")


class WebhookSecret(BaseModel):
    """`authorization` is sent as it is; `signing_key` is base64, with or without the prefix `whsec_`."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    authorization: str = Field(pattern=r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$", repr=False)
    signing_key: Annotated[bytes, BeforeValidator(_key)] = Field(repr=False)


class WebhookCredential:
    """What the receiver knows an app's requests by."""

    def __init__(self, secret: Secret[WebhookSecret], clock: Clock = time.time) -> None:
        self._secret = secret
        self._clock = clock
        self._last: WebhookSecret | None = None

    @property
    def key_version(self) -> str | None:
        return self._secret.version

    def bearer(self) -> str | Unavailable:
        """The whole Authorization header."""
        try:
            self._last = self._secret.get()
        except SECRET_FAULTS as error:
            return without_secret(error)
        return self._last.authorization

    def headers(self, webhook_id: str, body: bytes, client: str) -> list[str]:
        """Those that sign `body` and `client` as sent now, by the same secret that `bearer` gave last."""
        if self._last is None:
            raise RuntimeError("there is no signature before there is a bearer")
        timestamp = int(self._clock())
        sign = partial(signature, self._last.signing_key, webhook_id, timestamp)
        return [
            f"webhook-id: {webhook_id}",
            f"webhook-timestamp: {timestamp}",
            f"webhook-signature: v1,{sign(body)}",
            f"clarion-client: {client}",
            f"clarion-client-signature: v1,{sign(client.encode())}",
        ]

    def renew(self) -> bool:
        before = self._last
        try:
            return self._secret.reread() != before
        except SECRET_FAULTS:
            return False

    def alternate(self) -> bool:
        """A receiver takes any secret that it has."""
        return False


def signature(key: bytes, webhook_id: str, timestamp: int, body: bytes) -> str:
    """In base64. `timestamp` is in UNIX seconds."""
    return b64encode(hmac.digest(key, f"{webhook_id}.{timestamp}.".encode() + body, "sha256")).decode()


@dataclass(frozen=True, slots=True, eq=False)
class WebhookApp:
    """An app at the webhook.

    `presumed_gone`: no answer ends a subscription. `public`: whether it is sent to at a public IP address only.
    """

    presumed_gone: ClassVar = 0

    credential: WebhookCredential
    _: KW_ONLY
    name: str
    url: str
    title: str = TITLE
    public: bool = True

    def push(self, order: Order[bytes]) -> "WebhookPush":
        """Raises `ValueError` for a token that is no address, and a body that is no JSON object or grows too large."""
        address = WebhookAddress.parse(order.token)
        body = addressed(order.body, address)
        return WebhookPush(app=self, push_id=order.push_id, client=address.client, body=body)


def webhook_apps(
    settings: Sequence[AppSettings],
    secrets: "SecretsManagerClient",
    url: str,
    clock: Clock = time.time,
    *,
    public: bool = True,
) -> Apps[WebhookApp]:
    """Each app has a secret that holds a `WebhookSecret`."""

    def make(one: AppSettings) -> WebhookApp:
        credential = WebhookCredential(Secret(secrets, one.secret_id, WebhookSecret, clock), clock)
        return WebhookApp(credential, name=one.name, url=url, title=one.alert_title, public=public)

    return Apps.of_all_environments(settings, make)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPush:
    """`push_id` is the same however often the push is repeated. `client` is whose installation it is for."""

    app: WebhookApp
    push_id: str
    client: str
    body: bytes = field(repr=False)

    @property
    def credential(self) -> Credential:
        return self.app.credential

    def request(self, bearer: str) -> Request:
        headers = [
            f"authorization: {bearer}",
            "content-type: application/json",
            *self.app.credential.headers(self.push_id, self.body, self.client),
        ]
        return Request(self.app.url, headers, self.body, self.app.name, public=self.app.public)

    def without_payload(self) -> None:
        """No answer leaves it open whether address or payload is at fault."""
        return

    def outcome(self, result: Result) -> FirstAnswer:
        if isinstance(result, Fault):
            return RetryLater(status=None, reason=result.reason)
        if result.status == 200:
            return Delivered(status=200, provider_id=self.push_id)
        return refusal(result)


def refusal(answer: Answer) -> FirstAnswer:
    """What an answer other than 200 means. Its text is the receiver's own, and read by nobody."""
    status = answer.status
    reason = responses.get(status, "unknown status")
    if status in REJECTED:
        return CredentialRejected(status=status, reason=reason)
    if status in MOVED:
        return Misconfigured(status=status, reason=reason)
    if status in RETRY or status >= 500:
        return RetryLater(status=status, reason=reason, after=answer.retry_after)
    return Refused(status=status, reason=reason)


def addressed(body: bytes, address: WebhookAddress) -> bytes:
    """The network's JSON object with `installation` added: whom the push is for."""
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError("a webhook's payload is a JSON object")  # noqa: TRY004 - of the value, which is a network's
    mechanism = {"kind": "custom", "token": address.token}
    whole = {**content, "installation": {"id": address.installation_id, "delivery_mechanism": mechanism}}
    addressed = compact_json.encode(whole)
    if len(addressed) > MAX_BODY_BYTES:
        raise ValueError(f"a webhook's body has at most {MAX_BODY_BYTES} bytes")
    return addressed
