"""Losses are found while they happen: each once, by envelopes that are overdue, however often the stream restarts."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
import pytest
from moto import mock_aws
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision, PushDecision
from clarion.events import Event
from clarion.metrics import NAMESPACE, Metric
from pipeline.lake.commits import Manifest, read_manifest
from pipeline.lake.event_lake import EventLake
from pipeline.lake.schemas import DIFFERENCE
from pipeline.lake.snapshots import day_of
from pipeline.period import CLOCK_SKEW_MS, DAY_MS, HOUR_MS, Period
from pipeline.reconciliation.claims import write_claims
from pipeline.reconciliation.reconcile import reconcile
from pipeline.repair.watch import (
    LATE_MS,
    LONGEST_MS,
    LOSS,
    WATCH_CLAIM_LOOKBACK_MS,
    Clock,
    FoundLosses,
    Watch,
    due,
    emit,
    found,
    losses,
    losses_name,
    record,
    uncompacted,
)
from pipeline.terms import Terms
from tests.pipeline.small_lake import START, SmallLake, Way, ruled, subscribed

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

MINUTE = 60_000
OVERDUE = 3 * MINUTE


def minute(number: int) -> int:
    return START + number * MINUTE


LOST, DELIVERED, RETRIED, LATER, DELAYED, TOO_LATE, GIVEN_UP = (
    Way(minute(shown), number) for number, shown in enumerate((30, 31, 31, 33, 25, 15, 31))
)
WANTED = (subscribed(), ruled(LOST.key))
"""All these statements are of one sender, whose statements a subscription wants."""
LONG_BEFORE = START - 10 * DAY_MS
WANTED_ALWAYS = (subscribed(at=LONG_BEFORE), ruled(LOST.key, at=LONG_BEFORE))


def tried(way: Way, outcome: PushDecision, **others: object) -> list[Event]:
    return [way.observed(), way.envelope(), way.notification(), way.push(outcome).model_copy(update=others)]


class KilledError(Exception):
    """Between a batch's results and its checkpoint."""


class Played(NamedTuple):
    lake: EventLake
    reported: list[FoundLosses]
    after: dict[str, set[str]]
    """What had been emitted after each step."""


@pytest.fixture(scope="module")
def played(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The stream is killed in its first batch and goes on without any new file; then a late one arrives."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("watched")))
    play = Played(lake, [], {})

    def report(batch: FoundLosses) -> None:
        play.reported.append(batch)
        if len(play.reported) == 1:
            raise KilledError

    def run(step: str, until: int) -> None:
        try:
            Watch(EventLake(spark, lake.root), Terms(), OVERDUE, report).run(until)
        finally:
            play.after[step] = {row["receipt"] for row in emitted(lake)}

    arrived = SmallLake(lake.root)
    arrived.stream(*WANTED)
    arrived.stream(LOST.observed(), LATER.observed(), *tried(DELIVERED, PushDecision.DELIVERED))
    arrived.stream(*tried(RETRIED, PushDecision.RETRY))
    arrived.stream(*tried(GIVEN_UP, PushDecision.REFUSED, attempt=6, given_up=True))
    with pytest.raises(StreamingQueryException, match="KilledError"):
        run("killed", minute(35))
    run("restarted", minute(38))
    arrived.stream(DELAYED.observed(), TOO_LATE.observed())
    run("late", minute(40))
    return play


def emitted(lake: EventLake) -> list[Any]:
    return lake.read_named(losses_name(START), LOSS).collect()


def test_a_loss_is_found_as_soon_as_it_is_overdue_and_not_before(played: Played) -> None:
    found_at = {row["receipt"]: row["found_at"] for row in emitted(played.lake)}
    assert found_at[str(LOST.receipt)] == minute(35)
    assert str(LATER.receipt) not in played.after["killed"]
    assert found_at[str(LATER.receipt)] == minute(38)


def test_what_was_tried_is_no_loss_yet_whatever_came_of_it(played: Played) -> None:
    known = {str(way.receipt) for way in (DELIVERED, RETRIED, GIVEN_UP)}
    assert known & {row["receipt"] for row in emitted(played.lake)} == set()


def test_a_batch_that_was_killed_before_its_checkpoint_is_done_again_and_emits_nothing_twice(played: Played) -> None:
    assert played.after["killed"] == {str(LOST.receipt)}
    assert [row["receipt"] for row in emitted(played.lake)].count(str(LOST.receipt)) == 1
    began = minute(35) - OVERDUE - LATE_MS
    assert played.reported[0] == played.reported[1] == FoundLosses(minute(35), 1, minute(30), left_before=began)


def test_a_restart_goes_on_after_the_last_batch(played: Played) -> None:
    assert [(batch.until, batch.losses) for batch in played.reported[1:]] == [
        (minute(35), 1), (minute(38), 1), (minute(40), 1),
    ]  # fmt: skip


def test_in_a_quiet_hour_time_alone_makes_a_loss_overdue(played: Played) -> None:
    assert played.after["restarted"] - played.after["killed"] == {str(LATER.receipt)}


def test_a_late_file_is_judged_for_a_while_and_then_left_to_the_daily_run(played: Played) -> None:
    assert played.after["late"] - played.after["restarted"] == {str(DELAYED.receipt)}


def test_a_batch_judges_what_has_become_overdue_since_the_last_one_and_shortly_before() -> None:
    assert due(Period(minute(20), minute(25)), OVERDUE) == Period(minute(17) - LATE_MS, minute(22))


def test_a_pause_of_some_hours_is_made_up_for() -> None:
    since = START - LONGEST_MS
    assert due(Period(since, START), OVERDUE) == Period(since - OVERDUE - LATE_MS, START - OVERDUE)


@pytest.mark.parametrize("since", [0, START - LONGEST_MS - 1])
def test_the_first_batch_and_one_after_a_long_pause_judge_what_is_new_alone(since: int) -> None:
    assert due(Period(since, START), OVERDUE) == Period(START - OVERDUE - LATE_MS, START - OVERDUE)


def test_what_the_first_batch_leaves_to_the_daily_run_is_reported_and_of_later_ones_nothing_is_left(
    played: Played,
) -> None:
    assert [batch.left_before is None for batch in played.reported] == [False, False, True, True]


def test_after_a_pause_what_arrived_since_yesterday_began_is_compacted_hour_by_hour() -> None:
    midnight = START // DAY_MS * DAY_MS
    span = Period(0, midnight + 2 * HOUR_MS + MINUTE)
    hours = list(uncompacted(span, due(span, OVERDUE)))
    assert hours == [Period(hour, hour + HOUR_MS) for hour in range(midnight - DAY_MS, span.end, HOUR_MS)]


def test_otherwise_the_hours_are_compacted_that_a_batch_judges_and_the_one_before() -> None:
    span = Period(START + HOUR_MS, START + HOUR_MS + 5 * MINUTE)
    hours = list(uncompacted(span, due(span, OVERDUE)))
    assert hours == [Period(hour, hour + HOUR_MS) for hour in range(START - HOUR_MS, START + 2 * HOUR_MS, HOUR_MS)]


def test_the_clock_gives_the_same_span_again_and_never_goes_back() -> None:
    clock = Clock({"until": str(START)}).simpleStreamReader(DIFFERENCE)
    rows, end = clock.read(clock.initialOffset())
    assert list(rows) == list(clock.readBetweenOffsets({"until": 0}, end)) == [(0, START)]
    rows, same = clock.read(end)
    assert (list(rows), same) == ([], end)
    assert Clock({"until": str(START - 1)}).simpleStreamReader(DIFFERENCE).read(end)[1] == end


def test_the_clock_is_the_time_unless_it_is_set() -> None:
    clock = Clock({}).simpleStreamReader(DIFFERENCE)
    [(since, until)], end = clock.read({"until": START})
    assert since == START < until == end["until"]


@pytest.fixture
def shown_again(lake: EventLake) -> Period:
    """The last day of a lake in which a statement is shown again after three days, and another for the first time.

    Both were dropped as duplicates.
    """
    days = [day_of(START + number * DAY_MS) for number in range(4)]
    first, stranger = Way(days[0].start), Way(days[3].start + MINUTE, number=2)
    again = Way(days[3].start, number=3, raw=first.raw)
    arrived = SmallLake(lake.root)
    arrived.commit(*WANTED_ALWAYS, at=days[0].start)
    arrived.commit(*first.delivered())
    write_claims(lake, days[0], reconcile(lake, days[0], days[1].end, Terms()).claims, days[1].end)
    for way in (again, stranger):
        arrived.commit(way.observed(), way.envelope(), way.notification(NotificationDecision.DUPLICATE))
    lake.view.refresh()
    return days[3]


def test_lines_that_are_filed_under_the_hour_before_are_known_to_the_watch(lake: EventLake) -> None:
    """Firehose had begun their file before: a push is tried there, and another notification is lost."""
    arrived, before = SmallLake(lake.root), START - HOUR_MS
    retried, never_tried = Way(START, number=1), Way(START, number=2)
    arrived.commit(*WANTED_ALWAYS, at=LONG_BEFORE)
    arrived.commit(retried.observed(), retried.envelope(), retried.notification())
    arrived.commit(retried.push(PushDecision.RETRY), at=before)
    arrived.commit(never_tried.observed(), never_tried.envelope(), never_tried.notification(), at=before)
    found = losses(lake, Period(START, START + MINUTE), START + HOUR_MS, Terms())
    assert receipts(found) == {("missing", str(never_tried.receipt))}


def receipts(rows: DataFrame) -> set[tuple[str, str]]:
    return {(row["difference"], row["receipt"]) for row in rows.collect()}


def test_the_watch_leaves_duplicates_to_the_daily_run_which_knows_the_claims_of_all_days(
    lake: EventLake, shown_again: Period
) -> None:
    now, stranger = shown_again.end, ("wrongly_dropped", str(Way(number=2).receipt))
    assert receipts(losses(lake, shown_again, now, Terms())) == set()
    assert receipts(reconcile(lake, shown_again, now, Terms()).differences) == {stranger}


def test_claims_that_are_too_old_are_not_read(lake: EventLake, shown_again: Period) -> None:
    again, stranger = (("wrongly_dropped", str(Way(number=number).receipt)) for number in (3, 2))
    found = reconcile(lake, shown_again, shown_again.end, Terms(), WATCH_CLAIM_LOOKBACK_MS).differences
    assert receipts(found) == {again, stranger}


def test_a_clock_that_was_ahead_of_the_time_ends_the_watch_instead_of_silencing_it() -> None:
    clock = Clock({"until": str(START)}).simpleStreamReader(DIFFERENCE)
    clock.read({"until": START + CLOCK_SKEW_MS})
    with pytest.raises(ValueError, match=r"^it has come to .*, which is ahead of the time$"):
        clock.read({"until": START + CLOCK_SKEW_MS + 1})


def lost(lake: EventLake, *which: tuple[str, str | None]) -> DataFrame:
    values = {"difference": "missing", "at": START}
    rows = [{**values, "receipt": receipt, "subscription_id": subscription} for receipt, subscription in which]
    return lake.spark.createDataFrame([tuple(row.get(name) for name in DIFFERENCE.names) for row in rows], DIFFERENCE)


def test_a_loss_is_emitted_once_for_nobody_in_particular_and_across_midnight_too(lake: EventLake) -> None:
    midnight = START // DAY_MS * DAY_MS + DAY_MS
    emit(lake, lost(lake, ("one", None), ("one", "sub")), midnight - MINUTE)
    emit(lake, lost(lake, ("one", None), ("one", "sub"), ("two", None)), midnight + MINUTE)
    assert found(lake, midnight - MINUTE).losses == 2
    assert found(lake, midnight + MINUTE).losses == 1


def test_two_that_watch_at_once_emit_a_loss_once(lake: EventLake) -> None:
    other = EventLake(lake.spark, lake.root)

    class Overtaken(EventLake):
        overtaken = False

        def write_files(self, kind: str, rows: DataFrame) -> Any:
            if not Overtaken.overtaken:
                Overtaken.overtaken = True
                emit(other, lost(other, ("one", "sub")), START)
            return super().write_files(kind, rows)

    emit(Overtaken(lake.spark, lake.root), lost(lake, ("one", "sub"), ("two", "sub")), START + MINUTE)
    assert sorted((row["receipt"], row["found_at"]) for row in emitted(lake)) == [
        ("one", START), ("two", START + MINUTE),
    ]  # fmt: skip


def test_without_a_loss_the_days_manifest_says_up_to_when_it_was_watched(lake: EventLake) -> None:
    emit(lake, lost(lake).where(F.lit(False)), START)
    known = read_manifest(lake.root, losses_name(START))
    assert isinstance(known, Manifest)
    assert (known.sealed_at, known.lines) == (START, 0)
    assert found(lake, START) == FoundLosses(START, 0, None)
    assert found(lake, START).oldest_s is None


@pytest.fixture
def cloudwatch() -> Iterator["CloudWatchClient"]:
    with mock_aws():
        yield boto3.client("cloudwatch", "us-east-1")


def test_the_count_is_recorded_for_the_deployment_as_a_maximum_that_repeats_change_nothing_of(
    cloudwatch: "CloudWatchClient",
) -> None:
    now = datetime.now(UTC)
    for _ in range(2):
        record(cloudwatch, "test", FoundLosses(START, 3, START))
    (point,) = cloudwatch.get_metric_statistics(
        Namespace=NAMESPACE,
        MetricName=Metric.LOSSES_FOUND,
        Dimensions=[{"Name": "service", "Value": "watch"}, {"Name": "stage", "Value": "test"}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(hours=1),
        Period=7_200,
        Statistics=["Maximum"],
    )["Datapoints"]
    assert point["Maximum"] == 3
