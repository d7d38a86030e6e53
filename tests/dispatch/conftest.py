import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

import pytest
from moto import mock_aws

from clarion import tables
from clarion.decisions import NotifyType
from clarion.messages import PushMessage
from clarion.providers.transport import Transport
from clarion.tables import Subscription, Token
from clarion.tokens import token_hash
from local import keys, tls
from local.apns import Apns
from local.fcm import Fcm
from local.provider import Options, StandIn

NOW = 1_800_000_000.0
BUNDLE = "io.pcf.polkadotapp"


class Clock:
    """Stands still until told otherwise; UNIX seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@contextmanager
def _running(server: StandIn) -> Iterator[StandIn]:
    """A stand-in in a thread of its own, as the transport blocks the one it is called in."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    there(server.__aenter__())
    try:
        yield server
    finally:
        there(server.__aexit__(None, None, None))
        there(asyncio.sleep(0))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> tls.Localhost:
    return tls.issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def apns_key() -> keys.ApnsKey:
    return keys.generate_apns_key()


@pytest.fixture(scope="session")
def account() -> keys.ServiceAccount:
    return keys.generate_service_account()


@pytest.fixture
def run() -> Iterator[Callable[[StandIn], StandIn]]:
    """Start a stand-in that ends with the test."""
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(_running(server))


@pytest.fixture
def apns(run: Callable[[Apns], Apns], localhost: tls.Localhost, apns_key: keys.ApnsKey, clock: Clock) -> Apns:
    return run(Apns(localhost.server_context(), known=[apns_key], topics=[BUNDLE], options=Options(now=clock)))


@pytest.fixture
def fcm(run: Callable[[Fcm], Fcm], localhost: tls.Localhost, account: keys.ServiceAccount, clock: Clock) -> Fcm:
    return run(Fcm(localhost.server_context(), account=account, options=Options(now=clock)))


@pytest.fixture
def transport(localhost: tls.Localhost) -> Iterator[Transport]:
    transport = Transport(str(localhost.ca_file))
    yield transport
    transport.close()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        tables.bind("")
        Subscription.create_table(billing_mode="PAY_PER_REQUEST")
        Token.create_table(billing_mode="PAY_PER_REQUEST")
        yield


@pytest.fixture
def register(aws: None) -> Callable[..., Subscription]:
    """A subscription as the API makes it."""

    def register(notify_type: NotifyType, token: str, **changes: Any) -> Subscription:
        made_at = 1_700_000_000_000
        attributes = {
            "client_id": b"c" * 32,
            "notify_type": notify_type.value,
            "token": token,
            "status": "active",
            "generation": 1,
            "rule_count": 1,
            "created_at": made_at,
            "updated_at": made_at,
        }
        subscription = Subscription(str(uuid4()), **(attributes | changes))
        subscription.save()
        owner = Token(token_hash(notify_type, token), client_id=subscription.client_id)
        owner.subscription_id = subscription.subscription_id
        owner.save()
        return subscription

    return register


@pytest.fixture
def message() -> Callable[..., PushMessage]:
    """A push message for a subscription, observed just now."""

    def message(subscription: Subscription, **changes: Any) -> PushMessage:
        content = {
            "receipt": uuid4(),
            "observed_at": int(NOW * 1000),
            "statement_hash": uuid4().bytes + uuid4().bytes,
            "subscription_id": subscription.subscription_id,
            "client_id": subscription.client_id,
            "notify_type": subscription.notify_type,
            "sender_pubkey": b"s" * 32,
            "topic": b"t" * 32,
            "data": b"hello",
            "expires_at": int(NOW) + 3600,
        }
        return PushMessage.model_validate(content | changes)

    return message


def record(message: PushMessage, attempt: int = 1) -> dict[str, Any]:
    """What Lambda gets of a message in SQS."""
    return {
        "messageId": str(message.receipt),
        "receiptHandle": f"handle-{message.receipt}",
        "body": message.to_json(),
        "attributes": {"ApproximateReceiveCount": str(attempt)},
    }
