"""Lambda closes connections that are idle: the first call on such a one is repeated, and nothing else is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import pytest
from botocore.exceptions import ConnectionClosedError

from clarion import aws
from clarion.event_log import CLOSED_SECONDS, EventStream, EventWriter
from tests.events import SETTINGS
from tests.firehose import FirehoseServer, served_firehose
from tests.standins import Clock

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_sqs import SQSClient


@pytest.fixture
def firehose(monkeypatch: pytest.MonkeyPatch) -> Iterator[FirehoseServer]:
    with served_firehose(monkeypatch) as server:
        yield server


class NoQueue:
    """None is asked while Firehose takes everything."""


def test_a_connection_that_was_closed_while_it_was_idle_sends_no_event_the_long_way(firehose: FirehoseServer) -> None:
    writer = EventWriter(aws.firehose(aws.new_session()), cast("SQSClient", NoQueue()), SETTINGS)
    firehose.resets_idle = True

    for number in range(3):
        assert writer.write([f"{number}\n".encode()]) == []

    assert firehose.lines == [b"0", b"1", b"2"]


class ClosingFirehose:
    """Closes each connection, so many seconds after it was asked there."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self.calls = 0

    def put_record_batch(self, **_: object) -> None:
        self.calls += 1
        self._clock.advance(self._seconds)
        raise ConnectionClosedError(endpoint_url="Firehose")


@pytest.mark.parametrize(("seconds", "calls"), [(0, 2), (CLOSED_SECONDS, 2), (2 * CLOSED_SECONDS, 1)])
def test_a_firehose_that_closes_all_connections_is_asked_twice_if_that_takes_no_time(
    seconds: float, calls: int
) -> None:
    clock = Clock(0)
    firehose = ClosingFirehose(clock, seconds)
    stream = EventStream(cast("FirehoseClient", firehose), "events", clock)

    with pytest.raises(ConnectionClosedError):
        stream.put([[b"line\n"]])

    assert firehose.calls == calls
