"""A dapp as its Notify server sees it: a project, its domain, and accounts that have subscribed to it."""

import json
import secrets
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

from api.networks.walletconnect.router import answer
from api.networks.walletconnect.worker import DappApiWorker
from clarion.networks.walletconnect.ethereum import checksummed
from clarion.networks.walletconnect.projects import Project, secret_hash
from clarion.networks.walletconnect.subscriptions import NotifySubscription, NotifySubscriptionState, account_key
from tests.zulip import Clock

TYPE, OTHER_TYPE = "f173f231-a45c-4dc0-aa5d-956eb04f7360", "5c0d2b1e-9b1a-4a50-8d33-0a6f7f1f4e02"


@dataclass
class DappReply:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def reason(self) -> str:
        return str(self.json["reason"])


def new_account() -> str:
    return f"eip155:1:{checksummed(secrets.token_bytes(20))}"


def subscribe(app: str, account: str | None = None, **columns: Any) -> NotifySubscription:
    """As the worker does on a wallet's request. DappArguments are columns of its row."""
    account = account or new_account()
    row: dict[str, Any] = {
        "subscription_id": str(uuid4()),
        "account_spelled": account,
        "sym_key": secrets.token_bytes(32),
        "topic": secrets.token_hex(32),
        "scope": {TYPE},
        "state": NotifySubscriptionState.ACTIVE.value,
        "hash": secrets.token_hex(32),
        "changed_iat": 1,
        "expiry": 2**40,
        "profile": "shipped",
        "identity_key": "did:key:z6Mk",
    } | columns
    subscription = NotifySubscription(app, account_key(account), **row)
    subscription.save()
    return subscription


@dataclass
class Dapp:
    """A project that the operator has created: sends requests to the router, as API Gateway would."""

    worker: DappApiWorker
    clock: Clock
    project_id: str = field(default_factory=lambda: secrets.token_hex(16))
    secret: str = field(default_factory=secrets.token_urlsafe, repr=False)
    domain: str = field(default_factory=lambda: f"{secrets.token_hex(8)}.example.org")

    def create(self, **columns: Any) -> None:
        """As the operator does."""
        row: dict[str, Any] = {"secret_hash": secret_hash(self.secret), "name": "Dapp", "created_at": 0} | columns
        Project(self.project_id, **row).save()

    def send(
        self, method: str, path: str, body: object = None, *, raw: bytes | None = None, **headers: str
    ) -> DappReply:
        """`{project}` in the path is its own id. Names of headers with `_` for `-`; the secret is its own, if none is given."""
        path, _, query = path.replace("{project}", self.project_id).partition("?")
        sent = {"authorization": f"Bearer {self.secret}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        event: dict[str, Any] = {
            "version": "2.0",
            "rawPath": path,
            "headers": sent,
            "requestContext": {"http": {"method": method, "path": path}, "requestId": "r", "stage": "$default"},
            "body": b64encode(content).decode(),
            "isBase64Encoded": True,
        }
        if query:
            event["queryStringParameters"] = dict(parse_qsl(query, keep_blank_values=True))
        found = answer(event, self.worker)
        return DappReply(found["statusCode"], found["headers"], found["body"])

    def claim(self, domain: str | None = None) -> DappReply:
        return self.send("POST", "/{project}/subscribe-topic", {"appDomain": domain or self.domain})

    def notification(self, **changes: Any) -> dict[str, Any]:
        return {"type": TYPE, "title": "Hello", "body": "World", "icon": None, "url": None} | changes

    def notify(self, *accounts: str, notification_id: str | None = None, **changes: Any) -> DappReply:
        """DappArguments are members of the notification."""
        asked = {"notification": self.notification(**changes), "accounts": accounts}
        named = {} if notification_id is None else {"notification_id": notification_id}
        return self.send("POST", "/{project}/notify", asked | named)

    def subscriber(self, **columns: Any) -> str:
        """A new subscriber's account."""
        return str(subscribe(self.domain, **columns).account_spelled)
