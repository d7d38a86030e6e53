import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from hashlib import sha256
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import SecretStr

from clarion.clock import now_ms
from clarion.networks import SIMPLEX, network
from clarion.networks.simplex.needs import STORAGE_KEY
from clarion.networks.simplex.queues import NEWS, FollowedQueue, queue_of
from clarion.networks.simplex.rules import queue_key
from clarion.networks.simplex.storage_key import StorageKey
from clarion.secrets import SharedSecret
from clarion.tables import table_name
from ingest.settings import IngestSettings
from ingest.wiring import AwsClients
from tests.ingest.conftest import MakeSettings, ReceivedQueue
from tests.ingest.simplex.smp_server import SmpTestServer

SECRET = "s" * 43
STORED_BY = StorageKey.of(SharedSecret(secret=SecretStr(SECRET)))

type MakeSmpSettings = Callable[..., IngestSettings]


def encoded(server: SmpTestServer, notifier_id: bytes, *hosts: str) -> bytes:
    """A queue, as its agent sends it."""
    return server.address(*hosts) + bytes([len(notifier_id)]) + notifier_id


def key_of_row(server: SmpTestServer, notifier_id: bytes) -> bytes:
    return sha256(encoded(server, notifier_id)).digest()[:24]


def add_row(
    server: SmpTestServer,
    notifier_id: bytes,
    key: Ed25519PrivateKey,
    *hosts: str,
    status: str = "NEW",
    token: str = "ab" * 24,
) -> FollowedQueue:
    """What the NTF server writes for an agent's SNEW."""
    raw = encoded(server, notifier_id, *hosts)
    queue = queue_of(raw)
    of_queue = queue_key(queue)
    der = key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    row = FollowedQueue(
        of_queue,
        queue=raw,
        notifier_key=STORED_BY.seal(der, of_queue),
        token_id=token,
        owner_key=b"owner",
        status=status,
        bucket=NEWS,
        changed_at=now_ms(),
    )
    row.save()
    return row


def add_queue(server: SmpTestServer, *hosts: str, status: str = "NEW", token: str = "ab" * 24) -> bytes:
    """One that the server has, and that is to be followed: its notifier's id."""
    notifier_id, key = server.add_queue()
    add_row(server, notifier_id, key, *hosts, status=status, token=token)
    return notifier_id


def status_of(server: SmpTestServer, notifier_id: bytes) -> str:
    status: str = FollowedQueue.get(key_of_row(server, notifier_id)).status
    return status


async def becomes(server: SmpTestServer, notifier_id: bytes, status: str) -> None:
    while status_of(server, notifier_id) != status:
        await asyncio.sleep(0.02)


def nonces(received: ReceivedQueue) -> list[bytes]:
    """Of all messages that ever went to match."""
    return [network(SIMPLEX).decode(message.raw or b"").content.item.message.nonce for message in received.read()]  # type: ignore[attr-defined] # a QueueMessage


async def forwards(received: ReceivedQueue, expected: list[bytes]) -> None:
    while not set(nonces(received)) >= set(expected):
        await asyncio.sleep(0.02)


@pytest.fixture
def queues(aws: None, sdk: AwsClients) -> None:
    """The table, and the storage key."""
    FollowedQueue.Meta.table_name = table_name("test-", FollowedQueue)
    FollowedQueue.create_table(billing_mode="PAY_PER_REQUEST")
    secrets = boto3.client("secretsmanager")
    with suppress(ClientError):
        secrets.delete_secret(SecretId=STORAGE_KEY, ForceDeleteWithoutRecovery=True)
    secrets.create_secret(Name=STORAGE_KEY, SecretString=json.dumps({"secret": SECRET}))


@pytest.fixture
async def smp(tmp_path: Path) -> AsyncIterator[SmpTestServer]:
    async with SmpTestServer(tmp_path) as honest:
        yield honest


@pytest.fixture
async def more_smp(tmp_path: Path) -> AsyncIterator[list[SmpTestServer]]:
    """Three others."""
    async with AsyncExitStack() as servers:
        yield [await servers.enter_async_context(SmpTestServer(tmp_path)) for _ in range(3)]


@pytest.fixture
def smp_settings(make_settings: MakeSettings, queues: None) -> MakeSmpSettings:
    def make(*, allow_loopback: bool = True, **others: object) -> IngestSettings:
        options = {"hosts": ["ntf.example.com"], "app": "first", "allow_loopback": allow_loopback}
        given = {
            "networks": (SIMPLEX,),
            "nodes": {},
            "options": {SIMPLEX: options},
            "secrets": {STORAGE_KEY: STORAGE_KEY},
        }
        return make_settings(**given | others)

    return make


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are followed again within moments, and queues are read as often."""
    of_server = "ingest.sources.simplex.server"
    for pause in ("FIRST_PAUSE", "LONGEST_PAUSE", "LONGEST_UNPROVEN_PAUSE"):
        monkeypatch.setattr(f"{of_server}.{pause}", 0.05)
    monkeypatch.setattr("ingest.sources.simplex.bucket.EMPTY_SECONDS", 0.1)
    monkeypatch.setattr("ingest.sources.simplex.news.POLL_SECONDS", 0.05)
    monkeypatch.setattr("ingest.sources.simplex.news.ENDED_POLL_SECONDS", 0.1)
