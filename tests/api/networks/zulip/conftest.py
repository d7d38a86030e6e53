from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.model import OperationModel

from api.networks.zulip.allowances import Allowances
from api.networks.zulip.bouncer_keys import KeyRing
from api.networks.zulip.device_quota import DeviceQuota
from api.networks.zulip.settings import ServerPolicy
from api.networks.zulip.worker import ZulipWorker
from api.recent import Recent
from api.worker import ApiWorker
from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.networks.zulip.servers import Realm, Server, find_realm, find_server
from clarion.secrets import Secret
from tests.events import KeptEvents
from tests.zulip import KEYS, CallingServer, Clock, settings_of


@pytest.fixture(scope="module")
def zulip_worker(worker: ApiWorker) -> ZulipWorker:
    boto3.client("secretsmanager").create_secret(Name=BOUNCER_SECRET, SecretString=KEYS.text)
    made = ZulipWorker.serving(settings_of("clarion-test-", "late-events", worker.settings.push_queues))
    for model in (Server, Realm):
        model.create_table(billing_mode="PAY_PER_REQUEST")
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def requests(zulip_worker: ZulipWorker) -> Iterator[Counter[str]]:
    """How many have been sent to DynamoDB, by operation."""
    counted = Counter[str]()
    events = zulip_worker.connection.client.meta.events

    def count(model: OperationModel, **_: Any) -> None:
        counted[model.name] += 1

    events.register("before-call.dynamodb", count)
    yield counted
    events.unregister("before-call.dynamodb", count)


@pytest.fixture
def emitted() -> KeptEvents:
    return KeptEvents()


@pytest.fixture
def push_queues(zulip_worker: ZulipWorker) -> Mapping[Channel, str]:
    """Of one test."""
    sqs, channels = boto3.client("sqs"), zulip_worker.settings.push_queues
    return {channel: sqs.create_queue(QueueName=f"{channel}-{uuid4()}")["QueueUrl"] for channel in channels}


@pytest.fixture
def new_server(
    zulip_worker: ZulipWorker, clock: Clock, emitted: KeptEvents, push_queues: Mapping[Channel, str]
) -> Callable[..., CallingServer]:
    """A server that nobody knows yet, at an instance of the router that remembers nothing. Arguments are settings."""

    def make(**settings: Any) -> CallingServer:
        made = replace(
            zulip_worker,
            settings=zulip_worker.settings.model_copy(update={"push_queues": push_queues, **settings}),
            now=clock,
            events=emitted,
            keys=KeyRing(Secret(boto3.client("secretsmanager"), BOUNCER_SECRET, BouncerKeys)),
            servers=Recent(find_server),
            realms=Recent(find_realm),
            device_quota=DeviceQuota(),
            allowances=Allowances(),
        )
        return CallingServer(made, clock)

    return make


@pytest.fixture
def stranger(new_server: Callable[..., CallingServer]) -> CallingServer:
    """Where any server may register itself."""
    return new_server(server_policy=ServerPolicy.OPEN)


@pytest.fixture
def known_server(new_server: Callable[..., CallingServer]) -> Callable[..., CallingServer]:
    """One that is registered, with its realm. Arguments are columns of its row."""

    def make(**columns: Any) -> CallingServer:
        server = new_server()
        server.admit(**columns)
        return server

    return make


@pytest.fixture
def server(known_server: Callable[..., CallingServer]) -> CallingServer:
    return known_server()


@pytest.fixture
def queued(push_queues: Mapping[Channel, str]) -> Callable[[], list[PushMessage]]:
    """Reads what has been put on the push queues, and leaves them empty."""
    sqs = boto3.client("sqs")

    def read() -> list[PushMessage]:
        found = []
        for url in push_queues.values():
            while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
                found += [PushMessage.model_validate_json(message["Body"]) for message in messages]
                entries = [{"Id": each["MessageId"], "ReceiptHandle": each["ReceiptHandle"]} for each in messages]
                sqs.delete_message_batch(QueueUrl=url, Entries=entries)  # type: ignore[arg-type] # the stub's TypedDict
        return found

    return read
