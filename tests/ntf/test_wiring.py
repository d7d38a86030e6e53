"""The task as it is put together in production, with an emulation of AWS."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import boto3
import pytest

from clarion.networks.simplex.needs import IDENTITY, STORAGE_KEY
from clarion.networks.simplex.server_identity import ServerIdentity
from clarion.secrets import SecretError
from ntf.commands.wiring import commands_of
from ntf.settings import NtfSettings
from ntf.task import NtfTask, wire
from tests.ntf.agent import X25519_SPKI, registering
from tests.ntf.conftest import Connect
from tests.simplex import Stage, staged
from tests.simplex_wire import Cursor


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(monkeypatch) as made:
        secrets = boto3.client("secretsmanager")
        secrets.create_secret(Name=STORAGE_KEY, SecretString=json.dumps({"secret": "s" * 64}))
        secrets.create_secret(Name=IDENTITY, SecretString="random letters")
        yield made


@pytest.fixture
def settings(stage: Stage) -> NtfSettings:
    url = {name: stage.sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in ("apns", "commands")}
    return NtfSettings.from_environment(
        {
            "CLARION_NETWORK": "simplex",
            "CLARION_TABLE_PREFIX": "",
            "CLARION_SECRETS": json.dumps({name: name for name in (STORAGE_KEY, IDENTITY)}),
            "CLARION_OPTIONS": json.dumps({"hosts": ["ntf.example.com"], "app": "first"}),
            "CLARION_PUSH_QUEUES": json.dumps({"apns": url["apns"]}),
            "CLARION_COMMAND_QUEUE_URL": url["commands"],
            "CLARION_EVENTS_STREAM": "events",
            "CLARION_LATE_EVENTS_QUEUE_URL": url["commands"],
            "CLARION_BOUNDS": json.dumps({"threads": 2, "last_seconds": 0.1}),
        }
    )


@pytest.fixture
async def task(settings: NtfSettings, identity: ServerIdentity) -> AsyncIterator[NtfTask]:
    boto3.client("secretsmanager").put_secret_value(SecretId=IDENTITY, SecretString=identity.text)
    made = wire(settings)
    yield made
    await made.server.stop()
    made.service.executor.close()


async def test_an_agent_registers_a_token_and_asks_for_its_status(
    task: NtfTask, stage: Stage, connect: Connect
) -> None:
    agent = await connect(await task.server.listen("127.0.0.1", 0))
    (answer,) = await asyncio.to_thread(agent.ask, agent.transmission(registering(agent), correlation=b"1" * 24))
    assert answer.content.startswith(b"IDTKN ")
    content = Cursor(answer.content.removeprefix(b"IDTKN "))
    token_id, key = content.short(), content.rest
    assert key[1:].startswith(X25519_SPKI)
    assert len(stage.pushes()) == 1
    asked = agent.transmission(b"TCHK", correlation=b"2" * 24, entity=token_id)
    (answer,) = await asyncio.to_thread(agent.ask, asked)
    assert answer.content == b"TKN REGISTERED"


async def test_a_signature_of_another_session_is_worth_nothing(task: NtfTask, stage: Stage, connect: Connect) -> None:
    port = await task.server.listen("127.0.0.1", 0)
    agent, other = await connect(port), await connect(port)
    (answer,) = await asyncio.to_thread(agent.ask, agent.transmission(registering(agent), correlation=b"1" * 24))
    token_id = Cursor(answer.content.removeprefix(b"IDTKN ")).short()
    replayed = agent.transmission(b"TDEL", correlation=b"2" * 24, entity=token_id)
    (answer,) = await asyncio.to_thread(other.ask, replayed)
    assert answer.content == b"ERR AUTH"


def test_a_service_that_hangs_keeps_no_thread_for_long(settings: NtfSettings) -> None:
    """All commands share the threads: a few that wait for minutes would have all others wait."""
    threads = 20
    store = commands_of(settings, threads).store
    clients: Any = (store.sqs, store.secret._client, store.events._stream._firehose)
    for client in clients:
        config: Any = client.meta.config
        attempt = config.connect_timeout + config.read_timeout
        assert attempt * config.retries["total_max_attempts"] < 10
        assert config.max_pool_connections == threads


def test_without_an_identity_it_does_not_start_and_says_which_secret_it_lacks(settings: NtfSettings) -> None:
    with pytest.raises(SecretError, match="simplex-identity is no ServerIdentity") as refused:
        wire(settings)
    assert "random letters" not in str(refused.value)
