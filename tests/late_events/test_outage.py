"""An hour without Firehose at 1,000 pushes a second: nothing is lost, and no push waits.

In simulated time, at a tenth of the pace; a batch is ten pushes, and its events are one line. While Firehose answers at
once that it can't, nothing is delayed; while it hangs, each worker waits for it now and then.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import batched
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ReadTimeoutError

from clarion.aws import FIREHOSE_IN_TIME
from clarion.event_log import PAUSE_SECONDS, EventStream, EventWriter
from clarion.sqs import Received
from infra.environments import PROD
from late_events.handler import put
from tests.events import SETTINGS
from tests.standins import Clock

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_sqs import SQSClient

HOUR = 3_600
WORKERS = PROD.match.concurrency
BATCH_SECONDS = 0.1
HANG_SECONDS = cast("float", FIREHOSE_IN_TIME.read_timeout)  # type: ignore[attr-defined] # set by botocore's own constructor


class Firehose:
    """Out of reach until `back_at`; each request until then takes `hangs` seconds."""

    def __init__(self, clock: Clock, *, back_at: float, hangs: float = 0) -> None:
        self._clock = clock
        self._back_at = back_at
        self._hangs = hangs
        self.calls = 0
        self.lines: list[bytes] = []

    def put_record_batch(self, *, DeliveryStreamName: str, Records: Sequence[dict[str, bytes]]) -> dict[str, Any]:  # noqa: N803 - boto
        self.calls += 1
        if self._clock() < self._back_at:
            self._clock.advance(self._hangs)
            raise ReadTimeoutError(endpoint_url="Firehose")
        self.lines += [line for record in Records for line in record["Data"].splitlines()]
        return {"FailedPutCount": 0}


class Queue:
    """SQS as far as events are sent to it."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[dict[str, str]]) -> dict[str, Any]:  # noqa: N803 - boto
        self.bodies += [entry["MessageBody"] for entry in Entries]
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def received(self) -> list[Received]:
        return [Received(str(number), "", body, 1) for number, body in enumerate(self.bodies)]


class Workers:
    """As many as match has: the one that is free first takes the next batch, and emits its events at the end."""

    def __init__(self, clock: Clock, firehose: Firehose, queue: Queue) -> None:
        self._clock = clock
        stand_ins = cast("FirehoseClient", firehose), cast("SQSClient", queue)
        writers = [EventWriter(*stand_ins, SETTINGS, clock) for _ in range(WORKERS)]
        self._free_at = [(0.0, number, writer) for number, writer in enumerate(writers)]

    def work(self, arrivals: Iterable[float]) -> list[float]:
        """Seconds that each batch waited for a worker; its number is its line."""
        return [self._handle(f"{number}\n".encode(), arrival) for number, arrival in enumerate(arrivals)]

    def _handle(self, line: bytes, arrival: float) -> float:
        free_at, number, writer = heappop(self._free_at)
        begins = max(arrival, free_at)
        self._clock.seconds = begins + BATCH_SECONDS
        assert writer.write([line]) == []
        heappush(self._free_at, (self._clock(), number, writer))
        return begins - arrival


@pytest.fixture
def clock() -> Clock:
    return Clock(0)


@pytest.fixture
def queue() -> Queue:
    return Queue()


def redrive(firehose: Firehose, queue: Queue) -> None:
    stream = EventStream(cast("FirehoseClient", firehose), SETTINGS.events_stream)
    for received in batched(queue.received(), PROD.late_events.batch, strict=False):
        assert put(stream, received) == []


def test_an_hour_without_firehose_loses_no_event_and_delays_no_push(clock: Clock, queue: Queue) -> None:
    firehose = Firehose(clock, back_at=HOUR)
    batches = 10 * (HOUR + 2 * int(PAUSE_SECONDS))

    waits = Workers(clock, firehose, queue).work(number / 10 for number in range(batches))
    asked = firehose.calls
    redrive(firehose, queue)

    assert max(waits) == 0
    assert 10 * HOUR - WORKERS <= len(queue.bodies) < batches
    assert sorted(map(int, firehose.lines)) == list(range(batches))
    assert asked - (batches - len(queue.bodies)) <= WORKERS * (HOUR / (0.5 * PAUSE_SECONDS) + 1)
    assert firehose.calls - asked <= len(queue.bodies) / PROD.late_events.batch + 1


def test_a_firehose_that_hangs_delays_pushes_once_by_what_it_is_waited_for(clock: Clock, queue: Queue) -> None:
    """At the whole pace, for five minutes."""
    firehose = Firehose(clock, back_at=HOUR, hangs=HANG_SECONDS)
    batches = 100 * 300

    waits = Workers(clock, firehose, queue).work(number / 100 for number in range(batches))
    redrive(Firehose(clock, back_at=0), queue)

    assert max(waits) <= HANG_SECONDS
    assert not any(waits[100 * 10 :])
    assert len(queue.bodies) == batches
