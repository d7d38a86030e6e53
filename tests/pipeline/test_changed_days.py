"""Which judged days a late line concerns."""

import gzip
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from clarion.decisions import EnvelopeDecision, NotificationDecision
from clarion.events import Event, LimitsLoaded
from clarion.networks import STATEMENTS
from pipeline.compaction.compact import compact
from pipeline.lake.commits import LakeView, hour_folder, manifest_path, read_manifest, update
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.schemas import DIFFERENCE
from pipeline.lake.snapshots import CLAIMS, IN_FORCE, day_of, snapshot_name
from pipeline.period import DAY_MS, EVER, HOUR_MS, Period, hour_path
from pipeline.reconciliation.changed_days import changed_days, note_seen
from pipeline.reconciliation.claims import CLAIM, write_claims
from pipeline.reconciliation.due_days import first_uncompacted
from pipeline.report.report_files import page_path, report_name, write_page, write_tables
from tests.pipeline.small_lake import PHONE, SmallLake, Way, ruled
from tests.pipeline.test_daily import judged

START = 1_790_000_000_000 // DAY_MS * DAY_MS
DAYS = [day_of(START + number * DAY_MS) for number in range(4)]
JUDGED_AT, ARRIVED = DAYS[-1].end + 2 * HOUR_MS, DAYS[-1].end + DAY_MS
YESTERDAY, NOW = day_of(ARRIVED), ARRIVED + DAY_MS
claims_name = partial(snapshot_name, CLAIMS)
LATE: dict[str, Callable[[Way], Event]] = {
    "unmatched": lambda way: way.envelope(EnvelopeDecision.UNMATCHED),
    "rate_limited": lambda way: way.notification(NotificationDecision.RATE_LIMITED),
    "queued": lambda way: way.notification(),
}


@pytest.fixture
def lake(lake: EventLake) -> EventLake:
    for day in DAYS:
        judged(lake, day, {}, JUDGED_AT)
    return lake


@pytest.mark.parametrize("decision", LATE)
def test_a_day_is_judged_again_by_a_decision_of_which_nothing_else_is_there(lake: EventLake, decision: str) -> None:
    SmallLake(lake.root).commit(LATE[decision](Way(START + HOUR_MS)), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == [DAYS[0]]


@pytest.mark.parametrize("decision", [NotificationDecision.QUEUED, NotificationDecision.RATE_LIMITED])
def test_other_days_are_judged_again_whose_claims_or_differences_are_of_an_envelope_that_somebody_claimed(
    lake: EventLake, spark: SparkSession, decision: NotificationDecision
) -> None:
    """The second day queued it again, and the third lost it; the last one has nothing to do with it."""
    way, again = Way(START + HOUR_MS, 1), Way(DAYS[1].start, 2)
    claim = (way.envelope_id, str(PHONE), str(again.receipt), "queued", again.at, NOW)
    write_claims(lake, DAYS[1], spark.createDataFrame([claim], CLAIM), JUDGED_AT)
    found = dict.fromkeys(DIFFERENCE.names) | {
        "difference": "missing", "receipt": str(UUID(int=9)), "envelope_id": way.envelope_id
    }  # fmt: skip
    rows = spark.createDataFrame([tuple(found.values())], DIFFERENCE)
    lake.write_named(differences_name(DAYS[2]), rows, JUDGED_AT)
    SmallLake(lake.root).commit(way.notification(decision), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[:3]


def judge_all(lake: EventLake, at: int) -> None:
    """Once more, by all that is in the lake."""
    seen = {each.hour: each.sealed_at for each in LakeView(lake.root).manifests(EVER)}
    for day in DAYS:
        judged(lake, day, seen, at)
    lake.view.refresh()


def stream_damaged(lake: EventLake) -> tuple[Path, bytes]:
    """A file of the first day, and what it should be."""
    path = Path(lake.path(SmallLake(lake.root).stream(Way(START + HOUR_MS).observed())))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    return path, whole


def test_days_are_judged_again_once_a_damaged_file_is_put_right_and_its_hour_compacted(lake: EventLake) -> None:
    """By an operator: the daily run looks no further back for files than the last snapshot."""
    path, whole = stream_damaged(lake)
    hour = Period(START + HOUR_MS, START + 2 * HOUR_MS)
    assert len(compact(lake, hour, JUDGED_AT).damaged) == 1
    judge_all(lake, JUDGED_AT)
    for kind in IN_FORCE:
        update(lake.root, snapshot_name(kind, DAYS[2]), lambda known: replace(known, sealed_at=JUDGED_AT))
    path.write_bytes(whole)
    assert first_uncompacted(lake, YESTERDAY.start) == YESTERDAY.start
    assert changed_days(lake, YESTERDAY, NOW) == []
    assert compact(lake, hour, NOW).lines == {"observed": 1}
    assert changed_days(lake, YESTERDAY, NOW) == DAYS


def test_days_are_judged_again_when_a_damaged_file_comes_late_and_when_it_is_removed(lake: EventLake) -> None:
    """No manifest says of either; to the days after its own, it may be of rules."""
    SmallLake(lake.root).commit(Way(START + HOUR_MS).envelope())
    judge_all(lake, JUDGED_AT)
    assert changed_days(lake, YESTERDAY, NOW) == []
    path = Path(lake.path(f"events/{hour_folder(hour_path(START + HOUR_MS))}/late.gz"))
    for change in (lambda: path.write_bytes(b"\x1f\x8b"), path.unlink):
        change()
        assert changed_days(lake, YESTERDAY, NOW) == DAYS
        judge_all(lake, NOW)
        assert changed_days(lake, YESTERDAY, NOW) == []


def test_the_day_of_an_envelope_is_judged_again_that_was_decided_on_the_next_one(lake: EventLake) -> None:
    """Observed at 22:30, decided at 02:30, and judged as of 01:30."""
    way = Way(DAYS[1].start - 90 * 60_000)
    way.at = DAYS[1].start + 150 * 60_000
    decided = way.notification()
    decided = decided.model_copy(update={"judged_at": decided.at - HOUR_MS})
    SmallLake(lake.root).commit(decided, at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[:2]


def add_late_rules(lake: EventLake, sealed_at: int) -> None:
    """They are of the second day, in an hour of it that `compact` has sealed then."""
    at = DAYS[1].start + HOUR_MS
    SmallLake(lake.root).commit(ruled(Way().key, at=at), at=at)
    update(lake.root, hour_path(at), lambda known: replace(known, sealed_at=sealed_at))
    lake.view.refresh()


def test_a_day_that_was_judged_by_hand_is_judged_again_by_rules_that_come_late_under_an_hour_of_before(
    lake: EventLake,
) -> None:
    judged(lake, DAYS[-1], {}, JUDGED_AT + HOUR_MS)
    add_late_rules(lake, JUDGED_AT + 2 * HOUR_MS)
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[1:]


def test_a_day_that_a_run_found_changed_and_could_not_judge_is_found_by_the_next_one(lake: EventLake) -> None:
    """Two others were judged again, and of the first it was noted that nothing had come."""
    add_late_rules(lake, NOW)
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[1:]
    seen = {each.hour: each.sealed_at for each in lake.view.manifests(Period(START, NOW))}
    for day in DAYS[1:-1]:
        judged(lake, day, seen, NOW)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW + DAY_MS) == DAYS[-1:]


def test_a_day_that_is_due_stays_so_until_it_is_judged(lake: EventLake) -> None:
    """A run that found it changed by nothing may still be killed before it is judged."""
    before = read_manifest(lake.root, differences_name(DAYS[0]))
    assert changed_days(lake, YESTERDAY, NOW, DAYS[:1]) == []
    assert read_manifest(lake.root, differences_name(DAYS[0])) == before
    noted = read_manifest(lake.root, differences_name(DAYS[1]))
    assert noted
    assert noted.sealed_at == NOW


def test_rules_that_were_committed_after_a_day_was_judged_are_found_by_the_clocks_of_two_machines(
    lake: EventLake,
) -> None:
    """The hour was sealed by a run that began before the day's reconciliation, and ended after it."""
    judged(lake, DAYS[-1], {}, JUDGED_AT + HOUR_MS)
    add_late_rules(lake, JUDGED_AT + HOUR_MS - 1)
    assert DAYS[-1] in changed_days(lake, YESTERDAY, NOW)


def count_a_quiet_hour(lake: EventLake) -> None:
    compact(lake, Period(START, START + HOUR_MS), NOW, {hour_path(START): 0})


def compact_unreadable_lines(lake: EventLake, at: int = START) -> None:
    path = Path(lake.path(f"events/{hour_folder(hour_path(at))}/1.gz"))
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b"no JSON\n"))
    compact(lake, Period(at, at + HOUR_MS), NOW)


@pytest.mark.parametrize(("change", "days"), [(count_a_quiet_hour, DAYS[:1]), (compact_unreadable_lines, DAYS)])
def test_days_are_judged_again_once_if_other_hours_cant_be_judged_than_their_pages_say(
    lake: EventLake, change: Callable[[EventLake], None], days: list[Period]
) -> None:
    """Rules of days after may be among lines that can't be read."""
    change(lake)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == days
    for day in days:
        judged(lake, day, {}, NOW)
    assert changed_days(lake, YESTERDAY, NOW) == []


@pytest.mark.parametrize("name", [report_name, differences_name, claims_name])
@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_bytes(b"PAR1")])
def test_a_day_of_which_a_file_is_lost_is_judged_again_and_the_search_goes_on(
    lake: EventLake, spark: SparkSession, name: Callable[[Period], str], lose: Callable[[Path], object]
) -> None:
    """Of its page, its differences, or its claims."""
    found = tuple((dict.fromkeys(DIFFERENCE.names) | {"difference": "missing", "receipt": "lost"}).values())
    lake.write_named(differences_name(DAYS[1]), spark.createDataFrame([found], DIFFERENCE), JUDGED_AT)
    claim = (b"", str(PHONE), "claimed", "queued", START, NOW)
    write_claims(lake, DAYS[1], spark.createDataFrame([claim], CLAIM), JUDGED_AT)
    judged(lake, DAYS[1], {}, JUDGED_AT)
    kept = read_manifest(lake.root, name(DAYS[1]))
    assert kept
    lose(Path(lake.root, kept.files[0].path))
    SmallLake(lake.root).commit(Way(START + HOUR_MS).notification(), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[:2]


def test_a_day_whose_differences_have_a_manifest_that_cant_be_read_keeps_no_other_from_being_found(
    lake: EventLake,
) -> None:
    Path(lake.root, manifest_path(differences_name(DAYS[1]))).write_text("{")
    SmallLake(lake.root).commit(Way(START + HOUR_MS).notification(), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[:2]


def test_where_what_was_found_of_a_day_is_refused_no_day_is_judged_again_for_that(lake: EventLake) -> None:
    """A folder is refused on a disk, as S3 does where it throttles: neither says that the day is damaged."""
    refused = Path(lake.root, manifest_path(differences_name(DAYS[1])))
    refused.unlink()
    refused.mkdir()
    with pytest.raises(OSError, match=re.escape(refused.name)):
        changed_days(lake, YESTERDAY, NOW)


def test_a_day_that_was_judged_before_it_was_over_is_judged_again_for_16_days(lake: EventLake) -> None:
    judged(lake, DAYS[0], {}, DAYS[0].end - 4 * HOUR_MS)
    latest = [day_of(DAYS[0].start + back * DAY_MS) for back in (7, 15, 16)]
    assert [changed_days(lake, day, NOW) for day in latest] == [DAYS[:1], DAYS[:1], []]


def test_the_next_day_is_judged_again_if_what_was_decided_shortly_before_counts_for_its_limits(lake: EventLake) -> None:
    SmallLake(lake.root).commit(Way(DAYS[1].start - 20_000).notification(), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[:2]


def test_the_day_of_an_envelope_that_was_decided_on_the_next_one_is_judged_again_by_rules_of_then(
    lake: EventLake,
) -> None:
    """The rules are of half past one, and the decision of two o'clock; the last day has nothing of the kind."""
    way = Way(DAYS[1].start - HOUR_MS)
    way.at = DAYS[1].start + 2 * HOUR_MS
    decided = SmallLake(lake.root).commit(way.envelope(), at=way.at)
    for day in DAYS:
        judged(lake, day, {decided.hour: decided.sealed_at}, JUDGED_AT)
    SmallLake(lake.root).commit(ruled(way.key, at=way.at - HOUR_MS // 2), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == DAYS


def page_of_a_crowd(way: Way) -> Event:
    """Of a match long before, judged as of an hour before it was handled."""
    notification = way.notification()
    return notification.model_copy(update={"judged_at": notification.at - HOUR_MS})


@pytest.mark.parametrize("decide", [Way.envelope, page_of_a_crowd])
def test_the_day_of_an_envelope_that_was_decided_days_later_is_judged_again_by_rules_of_then(
    lake: EventLake, decide: Callable[[Way], Event]
) -> None:
    """The second day has nothing of the kind."""
    small, way = SmallLake(lake.root), Way(START + 22 * HOUR_MS)
    small.commit(way.observed())
    way.at = DAYS[2].start + 3 * HOUR_MS
    small.commit(decide(way), at=way.at)
    judge_all(lake, JUDGED_AT)
    small.commit(ruled(way.key, at=way.at - HOUR_MS // 2), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == [DAYS[0], *DAYS[2:]]


def test_a_late_observation_has_the_days_judged_again_that_have_claims_on_its_envelope(
    lake: EventLake, spark: SparkSession
) -> None:
    """The first day queued it, and without the observation there was no claim; the third queued it again."""
    way, again = Way(START + HOUR_MS, 1), Way(DAYS[2].start, 2)
    claim = (way.envelope_id, str(PHONE), str(again.receipt), "queued", again.at, NOW)
    write_claims(lake, DAYS[2], spark.createDataFrame([claim], CLAIM), JUDGED_AT)
    decided = SmallLake(lake.root).commit(way.notification())
    for day in DAYS:
        judged(lake, day, {decided.hour: decided.sealed_at}, JUDGED_AT)
    SmallLake(lake.root).commit(way.observed(), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == [DAYS[0], DAYS[2]]


def test_differences_that_another_job_wrote_meanwhile_are_not_recorded_as_having_seen_what_came_late(
    lake: EventLake,
) -> None:
    """A slower run by hand, whose view is of before what came late, judges the day while that is looked through."""
    late = SmallLake(lake.root).commit(Way(START + HOUR_MS).notification(), at=ARRIVED)
    for day in DAYS:
        judged(lake, day, {late.hour: late.sealed_at}, JUDGED_AT)
    lake.view.refresh()
    known = read_manifest(lake.root, differences_name(DAYS[0]))
    assert known
    judged(lake, DAYS[0], {}, JUDGED_AT - HOUR_MS)
    note_seen(lake.root, {DAYS[0]: known}, lake.view.manifests(EVER), NOW)
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[:1]


def test_a_report_that_is_being_made_meanwhile_still_writes_its_page(lake: EventLake) -> None:
    verdict = read_manifest(lake.root, differences_name(DAYS[0]))
    made = write_tables(lake.root, DAYS[0], {})
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[:1]
    write_page(lake.root, DAYS[0], made, "<p>new", verdict)
    assert Path(lake.root, page_path(DAYS[0])).read_text() == "<p>new"


def test_yesterday_is_judged_again_by_a_second_run_of_a_night_if_other_hours_of_it_cant_be_judged(
    lake: EventLake,
) -> None:
    judged(lake, YESTERDAY, {}, NOW + 2 * HOUR_MS)
    assert YESTERDAY not in changed_days(lake, YESTERDAY, NOW + 2 * HOUR_MS)
    hour = Period(YESTERDAY.start, YESTERDAY.start + HOUR_MS)
    compact(lake, hour, NOW + 3 * HOUR_MS, {hour_path(YESTERDAY.start): 5})
    lake.view.refresh()
    assert YESTERDAY in changed_days(lake, YESTERDAY, NOW + 3 * HOUR_MS)


@pytest.mark.parametrize("at", [START, START - 20 * DAY_MS])
def test_days_are_judged_again_once_an_hour_is_put_right_that_their_pages_name_however_old_it_is(
    lake: EventLake, at: int
) -> None:
    compact_unreadable_lines(lake, at)
    judge_all(lake, NOW)
    assert changed_days(lake, YESTERDAY, NOW) == []
    update(lake.root, hour_path(at), lambda known: replace(known, sealed_at=NOW + HOUR_MS, kinds={}))
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW + DAY_MS) == DAYS


def test_each_day_is_judged_again_that_a_limit_of_more_than_a_day_reaches(lake: EventLake) -> None:
    long = {"count": 100, "window": DAY_MS, "cooldown": HOUR_MS, "cap": 300, "cap_window": 60_000}
    SmallLake(lake.root).commit(LimitsLoaded(network=STATEMENTS, at=START - DAY_MS, **long), at=START - DAY_MS)
    SmallLake(lake.root).commit(Way(DAYS[1].start - 600_000).notification(), at=ARRIVED)
    lake.view.refresh()
    assert changed_days(lake, YESTERDAY, NOW) == DAYS[:3]
