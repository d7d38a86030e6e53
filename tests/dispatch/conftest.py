import json
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast, override
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from pynamodb.connection import Connection

from clarion import tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.decisions import Environment
from clarion.event_log import EventLog, EventWriter
from clarion.messages import CleanupMessage, CommandMessage, PushMessage
from clarion.networks import SIMPLEX, STATEMENTS
from clarion.networks.statements.payload import StatementBody
from clarion.providers.apns import ApnsApp
from clarion.providers.apps import Apps, AppSettings, apns_apps, fcm_apps
from clarion.providers.fcm import FcmApp
from clarion.providers.transport import Timeouts, Transport
from clarion.tables import Subscription, Token
from clarion.tokens import token_hash
from dispatch.batch import BatchReport, Dispatcher
from dispatch.queue import Delivery, PushQueue
from infra.environments import PROD
from local import keys, tls
from local.apns import Apns, ProviderTokens
from local.fcm import Fcm
from local.http2 import Connection as HttpConnection
from local.http2 import Misbehaviour, ServedRequest
from local.http2 import ServedAnswer as HttpAnswer
from local.provider import InjectedFault, Options, json_response
from tests import standins
from tests.events import SETTINGS
from tests.standins import NOW, PATIENT, Clock, Silenceable, running

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sqs import SQSClient

BUNDLE = "io.pcf.polkadotapp"
APP = AppSettings(name="first", secret_id="apns", bundle_id=BUNDLE)
INVALID_ARGUMENT = json_response(400, {"error": {"code": 400, "status": "INVALID_ARGUMENT", "details": []}})
SECOND = AppSettings(name="second", secret_id="second", bundle_id="io.pcf.second")

BODY = StatementBody(sender=b"s" * 32, topic=b"t" * 32, data=b"hello")

account, apns_key, clock, localhost = standins.account, standins.apns_key, standins.clock, standins.localhost


class SteeredApns(Silenceable, Apns):
    """Also silent, or down until an instant of its clock, and given the keys it knows."""

    down_until = 0.0

    @override
    def meet(self, token: str, trouble: InjectedFault) -> str | Misbehaviour | None:
        self.end_of_silence.wait()
        return "ServiceUnavailable" if self.now() < self.down_until else super().meet(token, trouble)

    def trust(self, *known: keys.ApnsKeyPair) -> None:
        self._provider_tokens = ProviderTokens(known, self.now)

    def judge(self, token: str) -> str | None:
        """As if somebody had shown the provider token."""
        return self._provider_tokens.flaw(f"bearer {token}")


class SteeredFcm(Silenceable, Fcm):
    """Also with a token endpoint that counts who asks it, and may be silent, or given what to answer.

    `sent_elsewhere`: our project id is not the project's, to which FCM answers as to a malformed token.
    """

    exchange: HttpAnswer | None = None
    exchanges = 0
    sent_elsewhere = False

    @override
    def respond(self, request: ServedRequest, connection: HttpConnection) -> HttpAnswer:
        if request.path != "/token":
            return HttpAnswer(INVALID_ARGUMENT) if self.sent_elsewhere else super().respond(request, connection)
        self.exchanges += 1
        self.end_of_silence.wait()
        return self.exchange or super().respond(request, connection)


@pytest.fixture
def run() -> Iterator[Callable[..., Any]]:
    """Start a server that ends with the test."""
    with ExitStack() as stack:
        yield lambda server: stack.enter_context(running(server))


@pytest.fixture
def new_apns(
    run: Callable[..., SteeredApns], localhost: tls.Localhost, apns_key: keys.ApnsKeyPair, clock: Clock
) -> Callable[[], SteeredApns]:
    options = Options(now=clock)
    return lambda: run(
        SteeredApns(localhost.server_context(), known=[apns_key], topics=[BUNDLE, SECOND.bundle_id], options=options)
    )


@pytest.fixture
def apns(new_apns: Callable[[], SteeredApns]) -> SteeredApns:
    return new_apns()


@pytest.fixture
def sandbox(new_apns: Callable[[], SteeredApns]) -> SteeredApns:
    return new_apns()


@pytest.fixture
def new_fcm(
    run: Callable[..., SteeredFcm], localhost: tls.Localhost, account: keys.ServiceAccount, clock: Clock
) -> Callable[[], SteeredFcm]:
    options = Options(now=clock)
    return lambda: run(SteeredFcm(localhost.server_context(), account=account, options=options))


@pytest.fixture
def fcm(new_fcm: Callable[[], SteeredFcm]) -> SteeredFcm:
    return new_fcm()


@pytest.fixture
def another_fcm(new_fcm: Callable[[], SteeredFcm]) -> SteeredFcm:
    return new_fcm()


@pytest.fixture
def timeouts() -> Timeouts:
    """A test that waits for one of them asks for less."""
    return PATIENT


@pytest.fixture
def transport(localhost: tls.Localhost, timeouts: Timeouts) -> Iterator[Transport]:
    transport = Transport(str(localhost.ca_file), timeouts)
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

    def register(channel: Channel, token: str, **changes: Any) -> Subscription:
        made_at = 1_700_000_000_000
        attributes: dict[str, Any] = {
            "client_id": b"c" * 32,
            "network": STATEMENTS,
            "channel": channel.value,
            "token": token,
            "status": "active",
            "generation": 1,
            "rule_count": 1,
            "revision": 1,
            "created_at": made_at,
            "updated_at": made_at,
        }
        subscription = Subscription(str(uuid4()), **(attributes | changes))
        subscription.save()
        owner = Token(token_hash(channel, token), STATEMENTS, client_id=subscription.client_id)
        owner.subscription_id = subscription.subscription_id
        owner.save()
        return subscription

    return register


@pytest.fixture
def message() -> Callable[..., PushMessage]:
    """A push message for a subscription, observed just now."""

    def message(subscription: Subscription, **changes: Any) -> PushMessage:
        content = {
            "network": STATEMENTS,
            "receipt": uuid4(),
            "observed_at": int(NOW * 1000),
            "envelope_id": uuid4().bytes + uuid4().bytes,
            "subscription_id": subscription.subscription_id,
            "client_id": subscription.client_id,
            "channel": subscription.channel,
            "body": BODY,
            "expires_at": int(NOW) + 3600,
        }
        return PushMessage.model_validate(content | changes)

    return message


class Secrets:
    """Secrets Manager as far as we ask it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.read = 0

    def get_secret_value(self, *, SecretId: str) -> dict[str, str]:  # noqa: N803 - as boto3 calls it
        self.read += 1
        if SecretId not in self.texts:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException"}}, "GetSecretValue")
        text = self.texts[SecretId]
        return {"SecretString": text, "VersionId": sha256(text.encode()).hexdigest()}


class Lake:
    """Firehose as far as the tests set it."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def put_record_batch(self, *, DeliveryStreamName: str, Records: list[dict[str, bytes]]) -> dict[str, Any]:  # noqa: N803
        for record in Records:
            self.events += [json.loads(line) for line in record["Data"].splitlines()]
        return {"FailedPutCount": 0, "RequestResponses": []}


class Queue:
    """SQS in steered time: a hot queue, that of its held messages, and the dead letters. `delays` are in seconds."""

    def __init__(self, clock: Clock) -> None:
        self.dead: list[str] = []
        self.delays: list[int] = []
        self.takes_held = self.takes_commands = True
        self.commands: list[CommandMessage] = []
        self.cleanups: list[CleanupMessage] = []
        self._clock = clock
        self._held: dict[str, dict[str, Any]] = {}
        self._bodies: dict[str, str] = {}
        self._visible_at: dict[str, float] = {}
        self._receives: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._bodies)

    def put(self, *messages: PushMessage) -> None:
        for message in messages:
            self.put_text(str(message.receipt), message.to_json())

    def put_text(self, name: str, body: str) -> None:
        self._bodies[name] = body

    @property
    def held(self) -> int:
        """How many messages are held; the others are in the hot queue."""
        return len(self._held)

    @property
    def in_flight(self) -> int:
        """How many messages of the hot queue are hidden."""
        return sum(self._visible_at.get(name, 0) > self._clock() for name in self._bodies if name not in self._held)

    def wait(self, message: PushMessage) -> float:
        """Seconds until the message is visible again."""
        return self._visible_at[str(message.receipt)] - self._clock()

    def receive(self) -> list[Delivery]:
        visible = [name for name in self._bodies if self._visible_at.get(name, 0) <= self._clock()]
        self._receives.update(visible)
        self._visible_at.update((name, self._clock() + 180) for name in visible)
        return [Delivery.of(self._record(name)) for name in visible]

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            del self._bodies[name]
            self._held.pop(name, None)

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> None:  # noqa: N803
        for entry in Entries:
            self._visible_at[entry["ReceiptHandle"]] = self._clock() + entry["VisibilityTimeout"]

    def send_message(self, *, QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        assert QueueUrl == "cleanup"
        self.cleanups.append(CleanupMessage.model_validate_json(MessageBody))

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        if QueueUrl == "held" and not self.takes_held:
            raise ClientError({"Error": {"Code": "ServiceUnavailable"}}, "SendMessageBatch")
        if QueueUrl == "commands" and not self.takes_commands:
            raise ClientError({"Error": {"Code": "ServiceUnavailable"}}, "SendMessageBatch")
        for entry in Entries:
            if QueueUrl == "held":
                self._hold(entry)
            elif QueueUrl == "commands":
                self.commands.append(CommandMessage.model_validate_json(entry["MessageBody"]))
            else:
                self.dead.append(entry["MessageBody"])
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def _hold(self, entry: dict[str, Any]) -> None:
        name = uuid4().hex
        self.put_text(name, entry["MessageBody"])
        self.delays.append(entry["DelaySeconds"])
        self._visible_at[name] = self._clock() + entry["DelaySeconds"]
        self._held[name] = entry["MessageAttributes"]

    def _record(self, name: str) -> dict[str, Any]:
        return {
            "messageId": name,
            "receiptHandle": name,
            "body": self._bodies[name],
            "attributes": {"ApproximateReceiveCount": str(self._receives[name])},
            "messageAttributes": {
                key: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
                for key, value in self._held.get(name, {}).items()
            },
        }


class Worker:
    """A dispatch Lambda beside its queue."""

    def __init__(
        self, apps: Apps[Any], transport: Transport, queue: Queue, lake: Lake, clock: Callable[[], float]
    ) -> None:
        events = EventLog(EventWriter(cast("FirehoseClient", lake), cast("SQSClient", queue), SETTINGS))
        self._queue = queue
        self.dispatcher = Dispatcher(
            apps=apps,
            transport=transport,
            connection=Connection(),
            queue=PushQueue(cast("SQSClient", queue), "pushes", "dead-letters", "held"),
            cleanup=CleanupQueue(cast("SQSClient", queue), "cleanup"),
            events=events,
            command_queues={"toy": "commands", SIMPLEX: "commands"},
            clock=clock,
            max_receives=PROD.dispatch.receives,
            writers=ThreadPoolExecutor(1),  # moto loses its head when there are several
        )

    def work(self) -> BatchReport:
        """One invocation with all that is visible."""
        deliveries = self._queue.receive()
        if not deliveries:
            return BatchReport()
        report = self.dispatcher.run(deliveries)
        self.dispatcher.events.flush()
        self._queue.delete({delivery.received.message_id for delivery in deliveries} - {*report.unfinished})
        return report


@pytest.fixture
def secrets(apns_key: keys.ApnsKeyPair) -> Secrets:
    secrets = Secrets()
    secrets.texts["apns"] = secret_of(apns_key)
    return secrets


@pytest.fixture
def apns_app(apns: Apns, secrets: Secrets, clock: Clock) -> ApnsApp:
    app = apns_apps([APP], cast("SecretsManagerClient", secrets), urls_of(apns), clock).find(None, None)
    assert app is not None
    return app


@pytest.fixture
def fcm_app(fcm: Fcm, account: keys.ServiceAccount, secrets: Secrets, transport: Transport, clock: Clock) -> FcmApp:
    secrets.texts["fcm"] = account.as_json(fcm.token_uri)
    settings = AppSettings(name="first", secret_id="fcm")
    app = fcm_apps([settings], cast("SecretsManagerClient", secrets), transport, fcm.url, clock).find(None, None)
    assert app is not None
    return app


@pytest.fixture
def queue(clock: Clock) -> Queue:
    return Queue(clock)


@pytest.fixture
def lake() -> Lake:
    return Lake()


@pytest.fixture
def new_worker(
    aws: None, apns: Apns, secrets: Secrets, transport: Transport, queue: Queue, lake: Lake, clock: Clock
) -> Callable[..., Worker]:
    """One more worker, which knows nothing of the others; its clock may be wrong."""

    def new_worker(clock: Callable[[], float] = clock) -> Worker:
        apps = apns_apps([APP], cast("SecretsManagerClient", secrets), urls_of(apns), clock)
        return Worker(apps, transport, queue, lake, clock)

    return new_worker


@pytest.fixture
def worker(new_worker: Callable[..., Worker]) -> Worker:
    return new_worker()


@pytest.fixture
def fleet(
    aws: None,
    apns: Apns,
    sandbox: Apns,
    secrets: Secrets,
    transport: Transport,
    queue: Queue,
    lake: Lake,
    clock: Clock,
) -> Worker:
    """A worker for two apps in both environments."""
    secrets.texts["second"] = secrets.texts["apns"]
    apps = apns_apps([APP, SECOND], cast("SecretsManagerClient", secrets), urls_of(apns, sandbox), clock)
    return Worker(apps, transport, queue, lake, clock)


@pytest.fixture
def android_fleet(
    aws: None,
    fcm: SteeredFcm,
    another_fcm: SteeredFcm,
    account: keys.ServiceAccount,
    secrets: Secrets,
    transport: Transport,
    queue: Queue,
    lake: Lake,
    clock: Clock,
) -> Worker:
    """A worker for two Firebase projects, each with a token endpoint of its own."""
    secrets.texts["first"] = account.as_json(fcm.token_uri)
    secrets.texts["second"] = account.as_json(another_fcm.token_uri)
    settings = [AppSettings(name=name, secret_id=name) for name in ("first", "second")]
    apps = fcm_apps(settings, cast("SecretsManagerClient", secrets), transport, fcm.url, clock)
    return Worker(apps, transport, queue, lake, clock)


@pytest.fixture
def cut_off(
    aws: None, secrets: Secrets, transport: Transport, queue: Queue, lake: Lake, clock: Clock
) -> Iterator[Worker]:
    """A worker whose provider can't be reached."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{unused.getsockname()[1]}"
        urls = dict.fromkeys(Environment, url)
        yield Worker(
            apns_apps([APP], cast("SecretsManagerClient", secrets), urls, clock), transport, queue, lake, clock
        )


def secret_of(key: keys.ApnsKeyPair) -> str:
    return json.dumps({"key_id": key.key_id, "team_id": key.team_id, "private_key": key.private_key})


def urls_of(production: Apns, sandbox: Apns | None = None) -> dict[Environment, str]:
    return {Environment.PRODUCTION: production.url, Environment.SANDBOX: (sandbox or production).url}
