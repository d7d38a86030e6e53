"""XMTP in the lake: who wants a message depends on keys that the lake doesn't have."""

import json
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from clarion.channels import Channel
from clarion.decisions import NotificationDecision
from clarion.events import LimitsLoaded, NotificationDecided
from clarion.networks import XMTP, Rule
from clarion.networks.xmtp import decode
from clarion.networks.xmtp.rules import key_of
from clarion.subscription_events import RuleRef
from pipeline import arguments
from pipeline.cli import JOBS
from pipeline.columns import EventKind
from pipeline.generator.writing import declare_complete
from pipeline.lake.event_lake import EventLake
from pipeline.period import HOUR_MS, Period, arrivals, instant_text
from pipeline.reconciliation.reconcile import Findings, reconcile
from pipeline.reconciliation.verify import Facts, facts
from pipeline.report.tables import report_tables
from pipeline.terms import Terms
from tests.pipeline.conftest import copied
from tests.pipeline.small_lake import SmallLake, write_rows
from tests.xmtp import TOPIC, Inbox

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
PERIOD, NOW = Period(START, START + HOUR_MS), START + 2 * HOUR_MS
AT = START // 1000
ALIX, BO = Inbox(b"alix"), Inbox(b"bo")
CLIENT = b"a client"
OWNER, OTHER = str(UUID(int=1)), str(UUID(int=2))
"""The subscriptions: of Alix, whose keys are secret, and of somebody who gave none, and so wants everything."""
MESSAGES = [decode(BO.message(AT)), decode(ALIX.message(AT)), decode(BO.message(AT, b"a reaction", should_push=False))]
REACTION = 2
DECIDED: list[tuple[int, str, str]] = [
    (0, OWNER, "queued"), (1, OWNER, "own_message"), (2, OWNER, "not_pushable"),
    (0, OTHER, "queued"), (1, OTHER, "queued"), (2, OTHER, "not_pushable"),
]  # fmt: skip


def receipt(number: int) -> str:
    return str(UUID(int=100 + number))


@pytest.fixture(scope="module")
def recorded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """Three messages in a group, as ingest and match record them; not to be written to."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("recorded")))
    raws = [BO.message(AT), ALIX.message(AT), BO.message(AT, b"a reaction", should_push=False)]
    shown = list(enumerate(zip(raws, MESSAGES, strict=True)))
    write_rows(lake, EventKind.OBSERVED, [(START, XMTP, receipt(n), START, raw, None) for n, (raw, _) in shown])
    write_rows(lake, EventKind.ENVELOPE, [
        (START + 20, XMTP, receipt(n), one.id, "matched", START, one.sender, None) for n, (_, one) in shown
    ])  # fmt: skip
    refs = {OWNER: RuleRef.of(ALIX.rule(AT), secret=True), OTHER: RuleRef.of(Rule(key_of(TOPIC)), secret=True)}
    write_rows(lake, EventKind.RULES, [
        (1, XMTP, "added", who, 1, 1, [(ref.key, ref.condition, ref.condition_digest)]) for who, ref in refs.items()
    ])  # fmt: skip
    write_rows(lake, EventKind.SUBSCRIPTION, [(1, XMTP, who, CLIENT, "apns", "active", None, 1, 1) for who in refs])
    return lake


@pytest.fixture
def lake(recorded: EventLake, tmp_path: Path) -> EventLake:
    return copied(recorded, tmp_path)


def decide(lake: EventLake, decided: list[tuple[int, str, str]]) -> None:
    write_rows(lake, EventKind.NOTIFICATION, [
        (START + 20, XMTP, receipt(n), MESSAGES[n].id, word, who, CLIENT, "apns", MESSAGES[n].sender, key_of(TOPIC),
         None, START, None, None)
        for n, who, word in decided
    ])  # fmt: skip
    write_rows(lake, EventKind.PUSH, [
        (START + 99, XMTP, receipt(n), MESSAGES[n].id, "delivered", "notification", who, "apns", 1, 99, 200, *[None] * 3)
        for n, who, word in decided if word == "queued"
    ])  # fmt: skip


def reconciled(lake: EventLake, decided: list[tuple[int, str, str]]) -> Findings:
    decide(lake, decided)
    return reconcile(lake, PERIOD, NOW, Terms())


def amiss(lake: EventLake, changes: Mapping[tuple[int, str], str | None]) -> dict[tuple[int, str], str]:
    """The differences if some decisions are others, or None, by message and subscription."""
    words = {**{(n, who): word for n, who, word in DECIDED}, **changes}
    found = reconciled(lake, [(n, who, word) for (n, who), word in words.items() if word]).differences.collect()
    numbers = {receipt(n): n for n in range(len(MESSAGES))}
    return {(numbers[row["receipt"]], row["subscription_id"]): row["difference"] for row in found}


def test_the_facts_of_an_envelope_are_its_own() -> None:
    found = facts([XMTP, XMTP], [ALIX.message(AT), b"\xff"])
    found = found._replace(may=[may and sorted(may) for may in found.may])
    one = MESSAGES[1]
    assert found == Facts(
        [one.id, None], [one.sender, None], [[key_of(TOPIC)], ()], [one.expires_at, None], [None, "malformed"],
        [["alert"], ()], [["alert", "background", "own_message"], None],
    )  # fmt: skip


def test_what_depends_on_keys_is_unjudged_and_the_rest_is_borne_out(lake: EventLake) -> None:
    findings = reconciled(lake, DECIDED)
    assert findings.differences.collect() == []
    assert {(row[0], row[1]) for row in findings.unjudged.collect()} == {(receipt(n), OWNER) for n in range(2)}


def test_without_a_condition_a_decision_is_judged_like_any_other(lake: EventLake) -> None:
    changes = {(0, OTHER): None, (1, OTHER): "own_message"}
    assert amiss(lake, changes) == {(0, OTHER): "missing", (1, OTHER): "wrongly_dropped"}


@pytest.mark.parametrize(
    ("words", "differences"),
    [
        ((None, None, None), {0: "missing", 1: "missing"}),
        (("own_message", "queued", "own_message"), {}),
        (("not_pushable", "rate_limited", "queued"), {0: "wrongly_dropped", 1: "wrongly_dropped", 2: "unexpected"}),
    ],
)
def test_what_no_keys_can_bear_out_is_a_fault(
    lake: EventLake, words: tuple[str | None, ...], differences: dict[int, str]
) -> None:
    found = amiss(lake, {(n, OWNER): word for n, word in enumerate(words)})
    assert found == {(n, OWNER): difference for n, difference in differences.items()}


def test_next_to_a_change_of_the_rule_nothing_is_missing(lake: EventLake) -> None:
    write_rows(lake, EventKind.SUBSCRIPTION, [
        (START - back, XMTP, OWNER, CLIENT, "apns", status, None, 1, 1)
        for back, status in ((2, "invalid"), (1, "active"))
    ])  # fmt: skip
    assert amiss(lake, {(n, OWNER): None for n in range(3)}) == {}


def test_what_matched_nobody_is_wrongly_dropped_for_whoever_may_have_wanted_it(lake: EventLake) -> None:
    write_rows(lake, EventKind.ENVELOPE, [
        (START + 20, XMTP, receipt(n), one.id, "unmatched", START, one.sender, None) for n, one in enumerate(MESSAGES)
    ])  # fmt: skip
    dropped = amiss(lake, {(n, who): None for n, who, _ in DECIDED})
    assert dropped == {(n, who): "wrongly_dropped" for n, who, _ in DECIDED if n != REACTION}


def test_a_strict_reconciliation_passes_what_it_could_not_judge(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(lake, DECIDED)
    declare_complete(lake.root, arrivals(PERIOD, PERIOD.end + HOUR_MS).hours(), NOW)
    period = ["--from", instant_text(PERIOD.start), "--to", instant_text(PERIOD.end), "--now", instant_text(NOW)]
    asked = arguments.parse(["reconcile", "--strict", "--lake", lake.root, *period])
    assert JOBS["reconcile"](lake, asked) == 0
    times = {"from": instant_text(PERIOD.start), "to": instant_text(PERIOD.end)}
    assert json.loads(capsys.readouterr().out) == times | {"unjudged": 2}
    assert asked.findings == []


def test_the_report_counts_its_envelopes_and_pushes(spark: SparkSession, lake: EventLake) -> None:
    decide(lake, DECIDED)
    tables = report_tables(lake, PERIOD, NOW)
    assert {row["network"] for row in lake.read(EventKind.ENVELOPE).select("network").collect()} == {XMTP}
    [reached] = tables["notifications"].to_pylist()
    assert {stage: reached[stage] for stage in ("network", "wanted", "queued", "delivered")} == {
        "network": XMTP, "wanted": 3, "queued": 3, "delivered": 3,
    }  # fmt: skip
    assert sum(row["count"] for row in tables["cost"].to_pylist() if row["stage"] == "envelope") == 3


def test_an_own_message_shortly_before_a_period_counts_for_no_limit_and_stops_no_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Match says of it no `judged_at`, and of its envelope nothing else is read."""

    def decided(number: int, decision: NotificationDecision) -> NotificationDecided:
        at = START - 20_000 + 1_000 * number
        known = {"network": XMTP, "subscription_id": UUID(OWNER), "client_id": bytes(32), "channel": Channel.APNS}
        judged = {"judged_at": at, "order": number, "counted": True} if decision == NotificationDecision.QUEUED else {}
        return NotificationDecided(
            at=at, receipt=UUID(receipt(number)), envelope_id=bytes([number]) * 32, decision=decision, sender=TOPIC.encode(),
            key=key_of(TOPIC), **known, **judged,
        )  # fmt: skip

    limits = LimitsLoaded(
        network=XMTP, at=START - HOUR_MS, count=2, window=60_000, cooldown=0, cap=300, cap_window=60_000
    )
    queued = [decided(number, NotificationDecision.QUEUED) for number in range(3)]
    small = SmallLake(tmp_path)
    small.commit(limits)
    small.commit(*queued, decided(3, NotificationDecision.OWN_MESSAGE))
    assert reconcile(EventLake(spark, str(tmp_path)), PERIOD, NOW, Terms()).differences.collect() == []
