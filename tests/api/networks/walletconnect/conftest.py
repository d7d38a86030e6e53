import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import pytest

from api.networks.walletconnect.settings import DappApiSettings
from api.networks.walletconnect.worker import DappApiWorker
from api.recent import Recent
from api.worker import ApiWorker
from clarion.clock import now_ms
from clarion.messages import CommandMessage
from clarion.networks.walletconnect.commands import NotifyCommand, read_command
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.walletconnect.projects import find_project
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.settings import WalletConnectOptions
from clarion.networks.walletconnect.tables import MODELS
from tests.dapps import Dapp
from tests.zulip import Clock

HOUR_MS = 3_600_000
DOMAIN = "notify.example.org"
SERVER_KEYS = ServerKeys.generate()


@pytest.fixture(scope="module")
def walletconnect_worker(worker: ApiWorker) -> DappApiWorker:
    boto3.client("secretsmanager").create_secret(Name=SERVER_SECRET, SecretString=SERVER_KEYS.text)
    settings = DappApiSettings(
        network="walletconnect",
        table_prefix="clarion-test-",
        secrets=json.dumps({SERVER_SECRET: SERVER_SECRET}),
        command_queue_url="set by each test",
        options=WalletConnectOptions(
            domain=DOMAIN,
            relay_url="https://relay.example.org",
            relay_project_id="0" * 32,
            key_servers=("keys.example.org",),
        ).model_dump_json(),
    )
    made = DappApiWorker.serving(settings)
    for model in MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    return made


@pytest.fixture
def clock() -> Clock:
    """At the begin of an hour: all buckets are refilled at the ends of their intervals."""
    return Clock(now_ms() // HOUR_MS * HOUR_MS)


@pytest.fixture
def commands_queue() -> str:
    """Of one test."""
    return boto3.client("sqs").create_queue(QueueName=f"commands-{uuid4()}")["QueueUrl"]


@pytest.fixture
def new_dapp(walletconnect_worker: DappApiWorker, clock: Clock, commands_queue: str) -> Callable[..., Dapp]:
    """One that is created, and has no domain yet, at an instance of the router that remembers nothing.

    DappArguments are columns of its project's row.
    """

    def make(**columns: Any) -> Dapp:
        settings = walletconnect_worker.settings.model_copy(update={"command_queue_url": commands_queue})
        dapp = Dapp(replace(walletconnect_worker, settings=settings, now=clock, projects=Recent(find_project)), clock)
        dapp.create(**columns)
        return dapp

    return make


@pytest.fixture
def dapp(new_dapp: Callable[..., Dapp]) -> Dapp:
    """One that has its domain."""
    made = new_dapp()
    assert made.claim().status == 200
    return made


@pytest.fixture
def queued(commands_queue: str) -> Callable[[], list[NotifyCommand]]:
    """Reads what has been put on the queue of commands, and leaves it empty."""
    sqs = boto3.client("sqs")

    def read() -> list[NotifyCommand]:
        found = []
        while messages := sqs.receive_message(QueueUrl=commands_queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                command = read_command(CommandMessage.model_validate_json(message["Body"]).content)
                assert isinstance(command, NotifyCommand)
                found.append(command)
                sqs.delete_message(QueueUrl=commands_queue, ReceiptHandle=message["ReceiptHandle"])
        return found

    return read
