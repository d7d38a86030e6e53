"""What a connection that hangs costs an invocation: not so much time that its messages come again."""

import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple
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
from tests.standins import counted_seconds

EVENT = EnvelopeDecided(
    network=STATEMENTS,
    at=1,
    receipt=UUID(int=1),
    envelope_id=None,
    decision=EnvelopeDecision.EXPIRED,
    observed_at=1,
)


def flush_events(clients: MatchClients) -> int:
    """How many are lost of one."""
    log = EventLog(EventWriter(clients.firehose, clients.sqs, SETTINGS))
    log.add(EVENT)
    return log.flush()


REQUESTS: dict[str, Callable[[MatchClients], object]] = {
    "sqs": lambda clients: clients.sqs.get_queue_url(QueueName="a-queue"),
    "s3": lambda clients: clients.s3().get_object(Bucket="a-bucket", Key="a-key"),
    "dynamodb": lambda clients: clients.dynamodb.get_item(TableName="a-table", Key={}),
}
CALLS = REQUESTS | {"events": flush_events}


class Ended(NamedTuple):
    """What a call came to, after so many seconds."""

    outcome: object
    seconds: float


def timed(call: Callable[[MatchClients], object], clients: MatchClients) -> Ended:
    with counted_seconds() as seconds:
        return Ended(attempt(call, clients), seconds())


@pytest.fixture(scope="module")
def calls() -> Iterator[Mapping[str, Future[Ended]]]:
    """They reach a server that takes connections and says nothing, and wait for it side by side."""
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as silent,
        ThreadPoolExecutor(len(CALLS)) as pool,
    ):
        for name, value in credentials().items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        clients = MatchClients.make(PREFIX)
        # A sandbox that has been at work has this one already; making it is no request that hangs.
        clients.s3()
        yield {name: pool.submit(timed, call, clients) for name, call in CALLS.items()}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_hangs_fails_in_time(calls: Mapping[str, Future[Ended]], name: str) -> None:
    outcome, seconds = calls[name].result()
    assert isinstance(outcome, Failure)
    assert seconds < RESERVE / 1000


def test_events_that_hang_are_lost_and_hold_up_no_answer(calls: Mapping[str, Future[Ended]]) -> None:
    outcome, seconds = calls["events"].result()
    assert outcome == 1
    assert seconds < RESERVE / 1000
