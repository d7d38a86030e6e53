"""While S3 takes nothing, what is too large for a message waits, and nothing else does; nothing is lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TYPE_CHECKING

import boto3
import pytest

from clarion.event_log import EventWriter
from clarion.networks.statements.codec import MAX_SIZE
from clarion.settings import EventSettings
from infra.environments import PROD
from ingest.delivery.destinations import CommandQueues, EnvelopeQueue, LakeStream
from ingest.delivery.outboxes import OVERSIZE_SHARE, Outboxes
from ingest.delivery.outgoing import Outgoing
from ingest.wiring import OUT_CONFIG
from tests.ingest.conftest import make_outgoing

if TYPE_CHECKING:
    from ingest.wiring import AwsClients
    from tests.ingest.conftest import ReadLake, ReceivedQueue

LARGE = b"\xaa" * MAX_SIZE
NODES = 2
CAPACITY = (PROD.ingest and PROD.ingest.following.outbox_bytes) or 0
EVENTS = EventSettings(events_stream="events", late_events_queue_url="late-events")
SLOTS = 8 * 10
"""Envelopes that all batches to the queue hold together."""


class S3Server(ThreadingHTTPServer):
    """Takes objects, once it is `back`; before that it hangs, or refuses if `refuses`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.back = Event()
        self.refuses = False
        self.stored: Counter[str] = Counter()
        """By key, how often each was put."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: S3Server

    def do_PUT(self) -> None:
        # The body comes at once, whatever it is expected to wait for.
        self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        if not server.refuses:
            server.back.wait(60)
        if server.back.is_set():
            server.stored[self.path.partition("/oversize/")[2]] += 1
        self.send_response(200 if server.back.is_set() else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base calls it
        """Nobody reads it."""


@pytest.fixture
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.back.set()
        server.shutdown()


@pytest.fixture
def outboxes(server: S3Server, sdk: "AwsClients", received: "ReceivedQueue", lake: "ReadLake") -> Outboxes:
    """As production has them, with two nodes."""
    s3 = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{server.server_port}", config=OUT_CONFIG)
    return Outboxes(
        queue=EnvelopeQueue(sdk.sqs, received.url, s3, "oversize"),
        lake=LakeStream(EventWriter(sdk.firehose, sdk.sqs, EVENTS)),
        commands=CommandQueues(sdk.sqs, {}),
        command_networks=(),
        capacity=CAPACITY,
        sources=NODES,
        lake_linger=0.01,
        counts=Counter(),
    )


@asynccontextmanager
async def sending(outboxes: Outboxes) -> AsyncIterator[None]:
    task = asyncio.create_task(outboxes.send_forever())
    yield
    task.cancel()


def large(number: int) -> Outgoing:
    return make_outgoing(LARGE, source=1, fingerprint=number)


async def test_while_s3_hangs_what_is_small_is_sent(
    outboxes: Outboxes, server: S3Server, received: "ReceivedQueue"
) -> None:
    async with sending(outboxes):
        for number in range(SLOTS):
            outboxes.envelopes.add(large(number))
        await asyncio.sleep(0.2)
        outboxes.envelopes.add(make_outgoing(b"small", source=1))
        (message,) = await asyncio.wait_for(received.holds(1), 3)
        assert message.raw == b"small"
        server.back.set()
        await asyncio.wait_for(received.holds(1 + SLOTS), 30)
    assert set(server.stored) == {message.location for message in received.messages if message.location}
    assert len(server.stored) == SLOTS


async def test_while_s3_refuses_a_node_is_read_on_until_what_waits_for_s3_takes_its_share_of_that(
    outboxes: Outboxes, server: S3Server, received: "ReceivedQueue"
) -> None:
    server.refuses = True
    count = OVERSIZE_SHARE * CAPACITY // NODES // large(0).held_size
    async with sending(outboxes):
        for number in range(count):
            outboxes.envelopes.add(large(number))
        await asyncio.wait_for(outboxes.envelopes.wait_for_space(1), 1)
        outboxes.envelopes.add(large(count))
        assert (outboxes.envelopes.is_full(1), outboxes.envelopes.is_full(2)) == (True, False)
        outboxes.envelopes.add(make_outgoing(b"small", source=1))
        (message,) = await asyncio.wait_for(received.holds(1), 3)
        assert (message.raw, len(outboxes.oversize)) == (b"small", count + 1)

        server.back.set()
        await asyncio.wait_for(outboxes.envelopes.wait_for_space(1), 30)
        await asyncio.wait_for(received.holds(1 + count + 1), 30)


async def test_looks_at_what_waits_for_s3_are_held_with_it(outboxes: Outboxes) -> None:
    one = large(1)
    outboxes.envelopes.add(one)
    assert outboxes.envelopes.holds(one.receipt)
    assert (len(outboxes), outboxes.oldest_envelope) == (1, one.observed_at)


async def test_a_task_that_ends_waits_for_s3_but_briefly(
    outboxes: Outboxes, received: "ReceivedQueue", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.delivery.outboxes.BRIEF_DRAIN_SECONDS", 0.2)
    async with sending(outboxes):
        outboxes.envelopes.add(large(1))
        outboxes.envelopes.add(make_outgoing(b"small", source=1))
        await asyncio.wait_for(outboxes.drain(), 5)
    assert [message.raw for message in received.read()] == [b"small"]
    assert len(outboxes) == 1
