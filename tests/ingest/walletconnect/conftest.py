import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import pytest

from clarion.messages import CommandMessage
from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect.commands import RelayCommand, read_command
from clarion.networks.walletconnect.topics import FollowedTopic, TopicKind, followed
from clarion.tables import table_name
from ingest.settings import IngestSettings
from ingest.wiring import AwsClients
from local.tls import Localhost, issue
from tests.ingest.conftest import MakeSettings
from tests.ingest.walletconnect.relay_server import RelayServer

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

TOPIC, OTHER_TOPIC = "ab" * 32, "cd" * 32
PROJECT = "1" * 32
OPTIONS = {
    "domain": "notify.example.com",
    "relay_url": "https://relay.example.com",
    "relay_project_id": PROJECT,
    "key_servers": ["keys.example.com"],
}

type MakeRelaySettings = Callable[..., IngestSettings]


class CommandQueue:
    """The queue of WalletConnect's commands, and what has been read from it."""

    def __init__(self, sqs: "SQSClient", url: str) -> None:
        self._sqs = sqs
        self.url = url
        self.commands: list[RelayCommand] = []

    def read(self) -> list[RelayCommand]:
        """Everything that was ever sent."""
        while found := self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            for one in found:
                command = read_command(CommandMessage.model_validate_json(one["Body"]).content)
                assert isinstance(command, RelayCommand)
                self.commands.append(command)
                self._sqs.delete_message(QueueUrl=self.url, ReceiptHandle=one["ReceiptHandle"])
        return self.commands

    async def holds(self, count: int) -> list[RelayCommand]:
        while len(self.read()) < count:
            await asyncio.sleep(0.01)
        return self.commands


def add_topic(topic: str, added_at: int = 1) -> None:
    followed(topic, TopicKind.APP, "app.example.com", added_at).save()


@pytest.fixture
def topics(aws: None, sdk: AwsClients) -> None:
    """The table, with `TOPIC` in it."""
    FollowedTopic.Meta.table_name = table_name("test-", FollowedTopic)
    FollowedTopic.create_table(billing_mode="PAY_PER_REQUEST")
    add_topic(TOPIC)


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> Localhost:
    return issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def relay(localhost: Localhost) -> AsyncIterator[RelayServer]:
    async with RelayServer(localhost.certificate_file) as honest:
        yield honest


@pytest.fixture
def commands(aws: None, sdk: AwsClients) -> CommandQueue:
    return CommandQueue(sdk.sqs, sdk.sqs.create_queue(QueueName="walletconnect-commands")["QueueUrl"])


@pytest.fixture
def relay_settings(
    make_settings: MakeSettings, commands: CommandQueue, topics: None, localhost: Localhost
) -> MakeRelaySettings:
    def make(*relays: RelayServer, **others: object) -> IngestSettings:
        given = {
            "networks": (WALLETCONNECT,),
            "nodes": {WALLETCONNECT: [relay.url for relay in relays]},
            "options": {WALLETCONNECT: OPTIONS},
            "ca_file": str(localhost.ca_file),
            "command_queues": {WALLETCONNECT: commands.url},
        }
        return make_settings(**given | others)

    return make


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is lost is followed again within moments, and topics are read as often."""
    for pause in ("FIRST_PAUSE", "LONGEST_PAUSE", "FAULTY_PAUSE"):
        monkeypatch.setattr(f"ingest.sources.following.{pause}", 0.02)
    monkeypatch.setattr("ingest.sources.walletconnect.source._POLL_SECONDS", 0.05)
