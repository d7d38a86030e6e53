"""Firehose answers late, or one call in two: what it has taken does not come again."""

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError

from clarion.event_log import RECORD_BYTES, RECORDS_PER_CALL
from infra.environments import PROD
from late_events import handler as late_events
from late_events.handler import CALL_SECONDS, PATIENT
from tests.firehose import FirehoseServer, served_firehose

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

TIMEOUT_S = PROD.late_events.size.timeout_s
TWO_CALLS = [letter * (RECORD_BYTES - 1) + "\n" for letter in "abcdef"]
"""As much as an invocation brings: Lambda hands over 6 MB at most."""


@pytest.fixture
def firehose(monkeypatch: pytest.MonkeyPatch) -> Iterator[FirehoseServer]:
    monkeypatch.setenv("CLARION_EVENTS_STREAM", "events")
    with served_firehose(monkeypatch) as server:
        yield server
    late_events._stream.cache_clear()


def failures(*bodies: str, seconds: float = TIMEOUT_S) -> list[int]:
    """The numbers of the messages that are to come again; the invocation has so many `seconds`."""
    records = [
        {"messageId": str(number), "receiptHandle": "", "body": body, "attributes": {"ApproximateReceiveCount": "1"}}
        for number, body in enumerate(bodies)
    ]
    end = time.monotonic() + seconds
    context: Any = SimpleNamespace(get_remaining_time_in_millis=lambda: round(1000 * (end - time.monotonic())))
    answer = late_events.handler({"Records": records}, cast("LambdaContext", context))
    return [int(one["itemIdentifier"]) for one in answer["batchItemFailures"]]


def test_what_firehose_answers_after_four_seconds_is_taken_once(firehose: FirehoseServer) -> None:
    firehose.delays = [4.0]

    assert failures("line\n") == []

    assert (firehose.calls, firehose.lines) == (1, [b"line"])


@pytest.mark.parametrize("statuses", [[503, 200], [200, 503]])
def test_of_two_calls_only_what_the_failed_one_held_comes_again(firehose: FirehoseServer, statuses: list[int]) -> None:
    firehose.statuses = list(statuses)

    again = failures(*TWO_CALLS)

    assert again == ([0, 1, 2, 3] if statuses[0] == 503 else [4, 5])
    assert len(firehose.lines) == len(TWO_CALLS) - len(again)


def test_if_each_call_fails_the_invocation_does(firehose: FirehoseServer) -> None:
    firehose.statuses = [503, 503]

    with pytest.raises(ClientError, match="ServiceUnavailableException"):
        failures(*TWO_CALLS)


def test_no_call_begins_that_could_outlast_the_invocation(firehose: FirehoseServer) -> None:
    firehose.delays = [2.0]

    assert failures(*TWO_CALLS, seconds=CALL_SECONDS + 1) == list(range(RECORDS_PER_CALL, len(TWO_CALLS)))

    assert firehose.calls == 1


def test_a_call_ends_within_its_time_and_that_within_the_invocation_s() -> None:
    limits: Any = PATIENT
    assert limits.connect_timeout + limits.read_timeout < CALL_SECONDS < TIMEOUT_S
