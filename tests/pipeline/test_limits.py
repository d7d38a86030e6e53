"""What the deployment's limits were, and that all judge by them."""

import json
import re
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import pytest
import sr25519
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import pipeline
from clarion.decisions import NotificationDecision
from clarion.events import LimitsLoaded
from clarion.limiter import SUBSCRIPTION_CAP, Limit
from clarion.networks import STATEMENTS, network
from clarion.networks.statements.codec import Statement
from clarion.networks.statements.rules import key_of
from clarion.networks.statements.signature import sign
from pipeline import arguments
from pipeline.cli import JOBS
from pipeline.columns import EventKind
from pipeline.compaction.compact import compact
from pipeline.explain.request import ExplainRequest, explain
from pipeline.generator.day import generate
from pipeline.generator.plan import Plan
from pipeline.generator.writing import declare_complete
from pipeline.in_force.limits import LimitHistory, LimitSpan
from pipeline.in_force.states import limit_history
from pipeline.lake.event_lake import EventLake
from pipeline.lake.lookup import Lookup
from pipeline.period import DAY_MS, FOREVER, HOUR_MS, Period, arrivals, instant_text
from pipeline.reconciliation.caps import with_caps
from pipeline.reconciliation.reconcile import reconcile
from pipeline.terms import Terms
from tests.pipeline.small_lake import LakeRow, SmallLake, Way, ruled, subscribed, write_rows

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
PERIOD, NOW = Period(START, START + HOUR_MS), START + 2 * HOUR_MS
KEYS = sr25519.pair_from_seed(sha256(b"alice").digest())
TOPIC, CLIENT, SUBSCRIPTION = b"t" * 32, b"c" * 32, str(UUID(int=7))
KEY = key_of(KEYS[0], TOPIC)
DEFAULT = network(STATEMENTS).limit
DECIDED_MS = 20


def loaded(at: int, limit: Limit | None, cap: Limit = SUBSCRIPTION_CAP) -> LakeRow:
    values = (limit.count, limit.window, limit.cooldown) if limit else (None, None, None)
    return (at, STATEMENTS, *values, cap.count, cap.window)


def test_limits_hold_until_others_are_loaded(lake: EventLake) -> None:
    other = Limit(30, 60_000, 7_000)
    assert DEFAULT
    write_rows(lake, EventKind.LIMITS, [
        loaded(START, DEFAULT), loaded(START + 1, DEFAULT), loaded(START + 5, other), loaded(START + 9, other),
        loaded(START + 20, None), loaded(NOW, DEFAULT),
    ])  # fmt: skip
    assert limit_history(lake.view, START, NOW).spans[STATEMENTS] == (
        LimitSpan(0, START + 5, DEFAULT, SUBSCRIPTION_CAP),
        LimitSpan(START + 5, START + 20, other, SUBSCRIPTION_CAP),
        LimitSpan(START + 20, FOREVER, None, SUBSCRIPTION_CAP),
    )


@pytest.mark.usefixtures("toy")
def test_a_network_of_which_the_lake_has_no_limits_has_its_own(lake: EventLake) -> None:
    spans = limit_history(lake.view, START, NOW).spans
    assert spans[STATEMENTS] == (LimitSpan(0, FOREVER, DEFAULT, SUBSCRIPTION_CAP),)
    assert spans["toy"] == (LimitSpan(0, FOREVER, None, SUBSCRIPTION_CAP),)


LONG = Limit(3, 60_000, 600_000)


@pytest.fixture(scope="module")
def refused(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """Under a limit of three, and ten minutes' cooldown: four at once, and one more after five minutes, refused too."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("lake")))
    times = [*range(START, START + 4), START + 300_000]
    words = ["queued"] * 3 + ["rate_limited"] * 2
    statements = [sign(Statement(0xFFFFFFFF << 32 | number, (TOPIC,), b"hi"), KEYS) for number in range(5)]
    receipts = [str(UUID(int=number)) for number in range(5)]
    shown = list(zip(times, receipts, statements, words, strict=True))
    write_rows(lake, EventKind.OBSERVED, [(at, STATEMENTS, who, at, one.encoded, None) for at, who, one, _ in shown])
    write_rows(lake, EventKind.ENVELOPE, [
        (at + DECIDED_MS, STATEMENTS, who, one.hash, "matched", at, KEYS[0], None) for at, who, one, _ in shown
    ])  # fmt: skip
    write_rows(lake, EventKind.NOTIFICATION, [
        (at + DECIDED_MS, STATEMENTS, who, one.hash, word, SUBSCRIPTION, CLIENT, "fcm", KEYS[0], KEY, 1, at, True, None)
        for at, who, one, word in shown
    ])  # fmt: skip
    write_rows(lake, EventKind.PUSH, [
        (at + 99, STATEMENTS, who, one.hash, "delivered", "notification", SUBSCRIPTION, "fcm", 1, 99, 200, *[None] * 3)
        for at, who, one, word in shown if word == "queued"
    ])  # fmt: skip
    write_rows(lake, EventKind.SUBSCRIPTION, [(1, STATEMENTS, SUBSCRIPTION, CLIENT, "fcm", "active", None, 1, 1)])
    return lake


def given(lake: EventLake, limit: Limit | None, condition_digest: bytes | None = None) -> None:
    """In place of what was given before."""
    write_rows(lake, EventKind.LIMITS, [loaded(START - DAY_MS, limit)])
    write_rows(lake, EventKind.RULES, [(1, STATEMENTS, "added", SUBSCRIPTION, 1, 1, [(KEY, None, condition_digest)])])


def test_a_refusal_is_lawful_by_the_limit_that_the_deployment_has(refused: EventLake) -> None:
    """By the default, the one after five minutes would have been dropped wrongly; a replay would push it."""
    given(refused, LONG)
    found = reconcile(refused, PERIOD, NOW, Terms()).differences.persist()
    assert found.collect() == []


@pytest.mark.parametrize("count", [1, 5])
def test_while_a_deployment_changes_limits_what_the_old_version_decides_is_right(lake: EventLake, count: int) -> None:
    """Three a minute before. Five minutes after the first new worker began, an old one refuses the fourth."""
    small, before = SmallLake(lake.root), START - HOUR_MS
    ways = [Way(START + 300_000 + number * 1_000, number) for number in range(1, 5)]
    for at, limit in ((before, 3), (START, count)):
        small.stream(
            LimitsLoaded(network=STATEMENTS, at=at, count=limit, window=60_000, cooldown=0, cap=300, cap_window=60_000)
        )
    small.stream(subscribed(at=before), ruled(ways[0].key, at=before))
    for way in ways[:3]:
        small.stream(*way.delivered())
    small.stream(ways[3].observed(), ways[3].envelope(), ways[3].notification(NotificationDecision.RATE_LIMITED))
    compact(lake, Period(before, NOW), NOW)
    assert reconcile(lake, PERIOD, NOW, Terms()).differences.collect() == []
    answer = explain(Lookup(lake.root), ExplainRequest(UUID(int=1), Period(before, NOW)))
    assert [one.verdict.found for each in answer.receipts for one in each.notifications] == ["right"] * 4


def test_a_secret_condition_excuses_no_refusal_that_no_limit_bears_out(
    refused: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    given(refused, DEFAULT, condition_digest=b"d" * 32)
    declare_complete(refused.root, arrivals(PERIOD, PERIOD.end + HOUR_MS).hours(), NOW)
    period = ["--from", instant_text(PERIOD.start), "--to", instant_text(PERIOD.end), "--now", instant_text(NOW)]
    asked = arguments.parse(["reconcile", "--strict", "--lake", refused.root, *period])
    assert JOBS["reconcile"](refused, asked) == 1
    times = {"from": instant_text(PERIOD.start), "to": instant_text(PERIOD.end)}
    assert json.loads(capsys.readouterr().out) == times | {"wrongly_dropped": 2}
    assert asked.findings == [f"{PERIOD}: 2 differences"]


def test_a_made_up_day_keeps_to_the_limits_it_is_given(lake: EventLake) -> None:
    given = LimitSpan(0, FOREVER, Limit(10, 60_000, 5_000), SUBSCRIPTION_CAP)
    generate(lake, Plan(START, statements=100, rules=60, hours=2, floods=1, limits=given), compacted=True)
    assert limit_history(lake.view, START, NOW).at(STATEMENTS, START).limit == given.limit
    assert lake.read(EventKind.NOTIFICATION).where(F.col("decision") == "rate_limited").count() > 0


@pytest.mark.parametrize(("at", "full"), [(START, False), (START + 100_000, True), (START + 49_000, True)])
def test_each_is_judged_by_the_cap_of_its_time_or_nearly(spark: SparkSession, at: int, full: bool) -> None:
    caps = [Limit(9, 60_000, 0), Limit(2, 60_000, 0)]
    change = START + 50_000
    spans = [LimitSpan(0, change, None, caps[0]), LimitSpan(change, FOREVER, None, caps[1])]
    words = ["queued", "queued", "capped"]
    rows = [(f"r{n}", "s", STATEMENTS, word, at + n, at + n) for n, word in enumerate(words)]
    found = spark.createDataFrame(
        rows, "receipt string, subscription_id string, network string, found string, judged_at long, at long"
    )
    marked = with_caps(found, LimitHistory({STATEMENTS: spans}, grace=15_000))
    assert [row["full"] for row in marked.where(F.col("found") == "capped").collect()] == [full]
    assert marked.where("overfull").count() == 0


def test_no_module_but_the_generator_knows_the_statements() -> None:
    folder = Path(pipeline.__file__).parent
    knowing = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"clarion\.networks\.(?!needs)\w+", path.read_text())
    }
    assert knowing
    assert all(path.startswith("generator/") for path in knowing)
