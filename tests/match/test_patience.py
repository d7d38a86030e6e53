"""What a connection that hangs costs an invocation: not so much time that its messages come again."""

import socket
import time
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from clarion.decisions import EnvelopeDecision
from clarion.event_log import EventLog, EventWriter
from clarion.events import EnvelopeDecided
from clarion.networks import STATEMENTS
from match.failures import Failure, attempt
from match.worker import RESERVE, MatchClients
from tests.events import SETTINGS
from tests.match.scene import PREFIX, credentials

CALLS: dict[str, Callable[[MatchClients], object]] = {
    "sqs": lambda clients: clients.sqs.get_queue_url(QueueName="a-queue"),
    "s3": lambda clients: clients.s3().get_object(Bucket="a-bucket", Key="a-key"),
    "dynamodb": lambda clients: clients.dynamodb.get_item(TableName="a-table", Key={}),
}


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[MatchClients]:
    """They reach a server that takes connections and says nothing."""
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        clients = MatchClients.make(PREFIX)
        # A sandbox that has been at work has this one already; making it is no request that hangs.
        clients.s3()
        yield clients


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_request_that_hangs_fails_in_time(clients: MatchClients, call: Callable[[MatchClients], object]) -> None:
    began = time.monotonic()
    assert isinstance(attempt(call, clients), Failure)
    assert time.monotonic() - began < RESERVE / 1000


def test_events_that_hang_are_lost_and_hold_up_no_answer(clients: MatchClients) -> None:
    log = EventLog(EventWriter(clients.firehose, clients.sqs, SETTINGS))
    log.add(
        EnvelopeDecided(
            network=STATEMENTS,
            at=1,
            receipt=UUID(int=1),
            envelope_id=None,
            decision=EnvelopeDecision.EXPIRED,
            observed_at=1,
        )
    )
    began = time.monotonic()
    assert log.flush() == 1
    assert time.monotonic() - began < RESERVE / 1000
