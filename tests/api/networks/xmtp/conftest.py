import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import boto3
import pytest
import sr25519

from api.authorization import Authorizer
from api.networks.xmtp.router import answer
from api.networks.xmtp.service import XmtpWorker
from api.networks.xmtp.settings import XmtpSettings
from api.worker import ApiWorker
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.networks.xmtp.installations import Installation
from tests.events import KeptEvents

SERVICE = "/notifications.v1.Notifications"
APPS = {"apns": ["first", "tablet"], "fcm": ["first", "robot"], "webhook": ["first"]}


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])


@dataclass
class Phone:
    """A client: sends requests through the authorizer and the router, as API Gateway would."""

    authorizer: Authorizer
    worker: XmtpWorker
    client_id: bytes
    token: str | None = field(repr=False)
    installation: str = "install1"

    def send(self, path: str, body: bytes, **headers: str) -> Reply:
        """Names of headers with `_` for `-`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": f"POST {SERVICE}/{{method}}",
            "rawPath": path,
            "headers": sent,
            "requestContext": {"http": {"method": "POST", "path": path}, "requestId": "r", "stage": "$default"},
            "body": b64encode(body).decode(),
            "isBase64Encoded": True,
        }
        decision = self.authorizer(event)
        event["requestContext"]["authorizer"] = {"lambda": decision["context"]}
        found = answer(event, self.worker)
        return Reply(found["statusCode"], found["headers"], b64decode(found.get("body", "")))

    def __call__(self, method: str, message: Mapping[str, Any] | None = None, **headers: str) -> Reply:
        """In JSON, for this installation unless the message names another."""
        body = json.dumps({"installationId": self.installation} | dict(message or {})).encode()
        return self.send(f"{SERVICE}/{method}", body, **({"content_type": "application/json"} | headers))

    def register(self, token: str | None = None, **headers: str) -> Reply:
        mechanism = {"apnsDeviceToken": token or uuid4().hex * 2}
        return self("RegisterInstallation", {"deliveryMechanism": mechanism}, **headers)


@pytest.fixture(scope="module")
def xmtp_worker(worker: ApiWorker) -> XmtpWorker:
    settings = XmtpSettings(
        network="xmtp",
        table_prefix="clarion-test-",
        events_stream="lake",
        late_events_queue_url="late-events",
        cleanup_queue_url=worker.settings.cleanup_queue_url,
        apps=json.dumps(APPS),
        first_app="first",
        push_queues=json.dumps(dict.fromkeys(APPS, worker.settings.push_queues[Channel.APNS])),
        requests_per_ten_seconds=100_000,
        rules_per_minute=10_000_000,
    )
    made = replace(XmtpWorker.serving(settings, kept_beside=Installation), service="xmtp")
    Installation.create_table(billing_mode="PAY_PER_REQUEST")
    return made


@pytest.fixture
def emitted() -> KeptEvents:
    return KeptEvents()


@pytest.fixture
def new_phone(
    xmtp_worker: XmtpWorker, authorizer: Authorizer, new_token: Callable[..., str], emitted: KeptEvents
) -> Callable[[], Phone]:
    def make() -> Phone:
        key, _ = sr25519.pair_from_seed(uuid4().bytes * 2)
        return Phone(authorizer, replace(xmtp_worker, events=emitted), key, new_token(sub=key.hex()))

    return make


@pytest.fixture
def phone(new_phone: Callable[[], Phone]) -> Iterator[Phone]:
    """It frees its token in the end."""
    made = new_phone()
    worker = made.worker
    yield made
    made.worker = worker
    assert made("DeleteInstallation").status == 200


@pytest.fixture
def registered(phone: Phone) -> Phone:
    """A phone whose installation is registered."""
    assert phone.register().status == 200
    return phone


@dataclass
class Clock:
    """In UNIX milliseconds."""

    now: int

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(registered: Phone) -> Clock:
    """What the registered phone's worker goes by from now on."""
    clock = Clock(now_ms())
    registered.worker = replace(registered.worker, now=clock)
    return clock


@pytest.fixture
def queue_of_cleanup(xmtp_worker: XmtpWorker) -> Callable[[], list[str]]:
    """Reads what clean-up was asked for."""
    sqs = boto3.client("sqs")

    def read() -> list[str]:
        bodies = []
        while found := sqs.receive_message(QueueUrl=xmtp_worker.settings.cleanup_queue_url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            bodies += [message["Body"] for message in found]
        return bodies

    return read
