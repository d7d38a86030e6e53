import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import duckdb
import pytest
from pyarrow import fs
from pyarrow import parquet as pq
from pyspark.sql import SparkSession

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision, SubscriptionStatus
from clarion.events import EnvelopeDecided, EnvelopeObserved, Event, LimitsLoaded, NotificationDecided, PushTried
from clarion.subscription_events import RuleRef, RulesChanged, SubscriptionChanged
from pipeline.columns import UNREADABLE, EventKind
from pipeline.compaction.compact import MAX_LONG, compact
from pipeline.compaction.completeness import incomplete_hours
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.commits import data_folder
from pipeline.lake.event_lake import EventLake
from pipeline.lake.files import filesystem
from pipeline.lake.lookup import Lookup
from pipeline.lake.parquet import write_parquet
from pipeline.lake.raw import RAW
from pipeline.lake.schemas import SCHEMAS
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path
from tests.pipeline.small_lake import SmallLake, add_files, data_paths

AT = 1_790_000_000_000
NETWORK = "statements"
ARRIVED = Period(AT, AT + 3 * HOUR_MS)
WRITERS: dict[EventKind, type[Event]] = {
    EventKind.OBSERVED: EnvelopeObserved,
    EventKind.ENVELOPE: EnvelopeDecided,
    EventKind.NOTIFICATION: NotificationDecided,
    EventKind.PUSH: PushTried,
    EventKind.SUBSCRIPTION: SubscriptionChanged,
    EventKind.RULES: RulesChanged,
    EventKind.LIMITS: LimitsLoaded,
}
RECEIPT, SUBSCRIPTION = UUID(int=1), UUID(int=2)
SENDER, KEY, CLIENT, ID = (bytes([number]) * 32 for number in (1, 2, 3, 4))
EVENTS: list[Event] = [
    EnvelopeObserved(network=NETWORK, at=AT, receipt=RECEIPT, observed_at=AT - 5, raw=bytes(range(256))),
    EnvelopeDecided(
        network=NETWORK, at=AT, receipt=RECEIPT, envelope_id=None, decision=EnvelopeDecision.MALFORMED, observed_at=AT,
        reason="empty",
    ),
    NotificationDecided(
        network=NETWORK, at=AT, receipt=RECEIPT, envelope_id=ID, decision=NotificationDecision.QUEUED, subscription_id=SUBSCRIPTION,
        client_id=CLIENT, channel=Channel.FCM, sender=SENDER, key=KEY, order=7,
    ),
    PushTried(
        network=NETWORK, at=AT, receipt=RECEIPT, envelope_id=ID, decision=PushDecision.DELIVERED, subscription_id=SUBSCRIPTION,
        channel=Channel.FCM, attempt=1, latency_ms=250, status=200, provider_id="projects/p/messages/1",
    ),
    SubscriptionChanged(
        network=NETWORK, at=AT, subscription_id=SUBSCRIPTION, client_id=CLIENT, channel=Channel.FCM,
        status=SubscriptionStatus.ACTIVE, generation=3, revision=5,
    ),
    RulesChanged(
        network=NETWORK, at=AT, change="added", subscription_id=SUBSCRIPTION, generation=3, revision=5,
        rules=(
            RuleRef(key=KEY), RuleRef(key=SENDER, condition=b"voip"), RuleRef(key=CLIENT, condition_digest=ID),
        ),
    ),
    LimitsLoaded(network=NETWORK, at=AT, count=30, window=60_000, cooldown=0, cap=300, cap_window=60_000),
]  # fmt: skip


def arrive(lake: EventLake, lines: Iterable[str], hour: int, name: str = "file") -> None:
    date, of_day = hour_path(AT + hour * HOUR_MS).split("/")
    folder = Path(lake.path(RAW)) / f"day={date}" / f"hour={of_day}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("name", ["[a]", "{a,b}", "a*", "a?", r"a\b"])
def test_each_file_is_read_once_though_folders_and_files_have_names_that_are_patterns_elsewhere(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    lake = EventLake(spark, str(tmp_path / name))
    for hour, file in ((0, "file"), (0, f"of {name}"), (1, "file")):
        arrive(lake, lines_of(EVENTS), hour, file)
    compact(lake, ARRIVED, now_ms())
    assert {kind: lake.read(kind).count() for kind in EventKind} == dict.fromkeys(EventKind, 3)
    answer = explain(Lookup(lake.root), ExplainRequest(RECEIPT, ARRIVED))
    assert [one.receipt for one in answer.receipts] == [str(RECEIPT)]


def lines_of(events: Iterable[Event]) -> list[str]:
    return [event.model_dump_json(exclude_none=True) for event in events]


@pytest.mark.parametrize(("kind", "writer"), WRITERS.items())
def test_the_lake_keeps_every_field_that_is_written(kind: EventKind, writer: type[Event]) -> None:
    assert set(SCHEMAS[kind].names) == set(writer.model_fields) - {"version", "event"}
    assert writer.model_fields["event"].default == kind


def test_no_kind_has_room_for_a_push_token() -> None:
    assert not any("token" in name for schema in SCHEMAS.values() for name in schema.names)


def test_what_the_live_system_writes_comes_out_as_it_went_in(lake: EventLake) -> None:
    arrive(lake, lines_of(EVENTS), hour=0)
    assert compact(lake, ARRIVED, now_ms()).lines == dict.fromkeys(map(str, EventKind), 1)
    for event in EVENTS:
        (row,) = lake.read(EventKind(event.model_dump()["event"])).collect()
        assert type(event).model_validate(row.asDict(recursive=True)) == event


def test_a_column_that_older_files_lack_is_null_for_every_reader(lake: EventLake) -> None:
    refused = EVENTS[3].model_copy(update={"decision": PushDecision.REFUSED, "given_up": False})
    earlier = hour_path(AT + HOUR_MS)
    SmallLake(lake.root).commit(refused)
    (path,) = data_paths(lake.root, EventKind.PUSH, ARRIVED)
    rows = pq.ParquetFile(path).read().drop_columns(["given_up"]).to_batches()
    add_files(lake.root, earlier, {"push": (write_parquet(lake.root, data_folder("push", earlier, "made"), rows),)})

    assert {row["given_up"] for row in lake.read(EventKind.PUSH).collect()} == {False, None}
    assert Lookup(lake.root).every(PushTried, ARRIVED) == [refused, refused.model_copy(update={"given_up": None})]
    paths = data_paths(lake.root, EventKind.PUSH, ARRIVED)
    asked = f"SELECT given_up FROM read_parquet({paths}, union_by_name = true)"  # noqa: S608 - ours
    with duckdb.connect() as database:
        assert database.execute(asked).fetchall() == [(False,), (None,)]


def test_late_and_repeated_files_are_taken_in_and_a_second_run_changes_nothing(lake: EventLake) -> None:
    arrive(lake, lines_of(EVENTS[:1]), hour=0)
    compact(lake, ARRIVED, now_ms())
    arrive(lake, lines_of(EVENTS[1:2]), hour=0, name="late")
    arrive(lake, lines_of(EVENTS[:1]), hour=1, name="repeated")
    for _ in range(2):
        compact(lake, ARRIVED, now_ms())
        assert lake.read(EventKind.OBSERVED).count() == 2
        assert lake.read(EventKind.OBSERVED, Period(AT, AT + 1)).count() == 1
        assert lake.read(EventKind.ENVELOPE).count() == 1


def test_lines_of_unknown_kind_or_version_are_kept_apart(lake: EventLake) -> None:
    good = lines_of(EVENTS[:1])
    odd = [
        "{",
        '{"event": "observed", "version": 1}',
        good[0].replace('"version":1', '"version":2'),
        '{"event": "tea"}',
    ]
    arrive(lake, good + odd, hour=0)
    compacted = compact(lake, ARRIVED, now_ms())
    assert compacted.unreadable == 4
    assert compacted.lines[EventKind.OBSERVED] == 1
    kept = lake.spark.read.parquet(lake.path(UNREADABLE))
    assert {row["value"] for row in kept.collect()} == set(odd)


def changed(event: Event, **values: object) -> str:
    return json.dumps(json.loads(event.to_line()) | values)


def test_a_line_that_a_job_would_fail_at_is_kept_apart(lake: EventLake) -> None:
    observed, notified, pushed, limits = EVENTS[0], EVENTS[2], EVENTS[3], EVENTS[6]
    bad = [
        changed(observed, network="unknown"),
        changed(observed, receipt="one"),
        changed(notified, subscription_id=f"{SUBSCRIPTION}0"),
        changed(notified, judged_at=-1),
        changed(pushed, at=-1),
        changed(pushed, latency_ms=MAX_LONG + 1),
        changed(limits, cap_window=(1 << 63) - 1),
    ]
    good = [changed(pushed, at=0, latency_ms=MAX_LONG), changed(limits, count=None)]
    arrive(lake, bad + good, hour=0)
    assert compact(lake, ARRIVED, now_ms()).lines == {UNREADABLE: len(bad), "push": 1, "limits": 1}
    assert {row["value"] for row in lake.spark.read.parquet(lake.path(UNREADABLE)).collect()} == set(bad)


def test_a_damaged_file_is_left_out_and_named_and_its_hour_is_not_judged(lake: EventLake) -> None:
    arrive(lake, lines_of(EVENTS[:1]), hour=0)
    arrive(lake, lines_of(EVENTS[:1]), hour=1)
    target = Path(lake.path(RAW)) / "day={}/hour={}/cut.gz".format(*hour_path(AT).split("/"))
    target.write_bytes(gzip.compress(EVENTS[1].to_line())[:-9])
    empty = target.with_name("empty.gz")
    empty.touch()
    for expected in (1, None):
        compacted = compact(lake, ARRIVED, AT + DAY_MS)
        assert compacted.damaged == [str(path.relative_to(lake.root)) for path in (target, empty)]
        assert compacted.lines.get(EventKind.OBSERVED) == (expected and 2)
    assert lake.read(EventKind.ENVELOPE).count() == 0
    reasons = dict(incomplete_hours(lake.view, Period(AT, AT + HOUR_MS), AT + DAY_MS))
    assert "files have arrived since" in reasons[hour_path(AT)]


def test_a_lake_without_a_kind_reads_as_empty(lake: EventLake) -> None:
    assert lake.read(EventKind.PUSH).count() == 0
    assert lake.plans(since=0).count() == 0


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_bucket_is_looked_for_in_the_region_of_the_job(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """No request is made for it: there is no such bucket."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    files, path = filesystem(f"{scheme}://a-bucket/envelope")
    assert isinstance(files, fs.S3FileSystem)
    assert (files.region, path) == ("eu-central-1", "a-bucket/envelope")
