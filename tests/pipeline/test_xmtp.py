"""XMTP in the lake: who wants a message depends on keys that the lake doesn't have."""

import json
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clarion.events import RuleRef
from clarion.networks import XMTP, Rule
from clarion.networks.xmtp import decode
from clarion.networks.xmtp.rules import key_of
from pipeline import arguments
from pipeline.cli import JOBS
from pipeline.lake import HOUR_MS, EventLake, Period, hour_columns, instant_text
from pipeline.reconcile import Findings, Terms, reconcile
from pipeline.report import report
from pipeline.schemas import SCHEMAS, EventKind
from pipeline.verify import Facts, facts
from tests.xmtp import TOPIC, Inbox

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
PERIOD, NOW = Period(START, START + HOUR_MS), START + 2 * HOUR_MS
AT = START // 1000
ALIX, BO = Inbox(b"alix"), Inbox(b"bo")
CLIENT = b"a client"
OWNER, OTHER = str(UUID(int=1)), str(UUID(int=2))
"""The subscriptions: of Alix, whose keys are secret, and of somebody who gave none, and so wants everything."""
MESSAGES = [decode(BO.message(AT)), decode(ALIX.message(AT)), decode(BO.message(AT, b"a reaction", should_push=False))]
DECIDED: list[tuple[int, str, str]] = [
    (0, OWNER, "queued"), (1, OWNER, "own_message"), (2, OWNER, "not_pushable"),
    (0, OTHER, "queued"), (1, OTHER, "queued"), (2, OTHER, "not_pushable"),
]  # fmt: skip


def write(lake: EventLake, kind: EventKind, rows: list[Any]) -> None:
    frame = lake.spark.createDataFrame(rows, SCHEMAS[kind])
    lake.write(kind, frame.select("*", *hour_columns(F.col("at"))))


def receipt(number: int) -> str:
    return str(UUID(int=100 + number))


@pytest.fixture
def lake(lake: EventLake) -> EventLake:
    """Three messages in a group, as ingest and match record them."""
    raws = [BO.message(AT), ALIX.message(AT), BO.message(AT, b"a reaction", should_push=False)]
    shown = list(enumerate(zip(raws, MESSAGES, strict=True)))
    write(lake, EventKind.OBSERVED, [(START, XMTP, receipt(n), START, raw, None) for n, (raw, _) in shown])
    write(lake, EventKind.ENVELOPE, [
        (START + 20, XMTP, receipt(n), one.id, "matched", START, one.sender, None) for n, (_, one) in shown
    ])  # fmt: skip
    refs = {OWNER: RuleRef.of(ALIX.rule(AT), secret=True), OTHER: RuleRef.of(Rule(key_of(TOPIC)), secret=True)}
    write(lake, EventKind.RULES, [
        (1, XMTP, "added", who, 1, 1, [(ref.key, ref.condition, ref.condition_digest)]) for who, ref in refs.items()
    ])  # fmt: skip
    write(lake, EventKind.SUBSCRIPTION, [(1, XMTP, who, CLIENT, "apns", "active", None, 1, 1) for who in refs])
    return lake


def decide(lake: EventLake, decided: list[tuple[int, str, str]]) -> None:
    write(lake, EventKind.NOTIFICATION, [
        (START + 20, XMTP, receipt(n), MESSAGES[n].id, word, who, CLIENT, "apns", MESSAGES[n].sender, key_of(TOPIC),
         None, START, None, None)
        for n, who, word in decided
    ])  # fmt: skip
    write(lake, EventKind.PUSH, [
        (START + 99, XMTP, receipt(n), MESSAGES[n].id, "delivered", "notification", who, "apns", 1, 99, 200, None, None)
        for n, who, word in decided if word == "queued"
    ])  # fmt: skip


def reconciled(lake: EventLake, decided: list[tuple[int, str, str]]) -> Findings:
    decide(lake, decided)
    return reconcile(lake, PERIOD, NOW, Terms())


def test_the_facts_of_an_envelope_are_its_own() -> None:
    found = facts([XMTP, XMTP], [ALIX.message(AT), b"\xff"])
    one = MESSAGES[1]
    assert found == Facts(
        [one.id, None], [one.sender, None], [[key_of(TOPIC)], ()], [one.expires_at, None], [None, "malformed"]
    )


def test_what_depends_on_keys_is_unjudged_and_the_rest_is_borne_out(lake: EventLake) -> None:
    findings = reconciled(lake, DECIDED)
    assert findings.differences.collect() == []
    assert {(row[0], row[1]) for row in findings.unjudged.collect()} == {(receipt(n), OWNER) for n in range(3)}


def test_without_a_condition_a_decision_is_judged_like_any_other(lake: EventLake) -> None:
    wrong = [(n, who, "own_message" if (n, who) == (1, OTHER) else word) for n, who, word in DECIDED]
    found = reconciled(lake, [one for one in wrong if one != (0, OTHER, "queued")]).differences.collect()
    assert {(row["receipt"], row["subscription_id"], row["network"]) for row in found} == {
        (receipt(0), OTHER, XMTP),
        (receipt(1), OTHER, XMTP),
    }


def test_a_strict_reconciliation_passes_what_it_could_not_judge(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    decide(lake, DECIDED)
    period = ["--from", instant_text(PERIOD.start), "--to", instant_text(PERIOD.end), "--now", instant_text(NOW)]
    asked = arguments.parse(["reconcile", "--strict", "--lake", lake.root, *period])
    assert JOBS["reconcile"](lake, asked) == 0
    assert json.loads(capsys.readouterr().out) == {"unjudged": 3}


def test_the_report_counts_its_envelopes_and_pushes(spark: SparkSession, lake: EventLake) -> None:
    decide(lake, DECIDED)
    frames = report(lake, PERIOD, NOW).by_name
    assert {row["network"] for row in lake.read(EventKind.ENVELOPE).select("network").collect()} == {XMTP}
    counts = dict.fromkeys(("envelopes", "wanted", "queued", "delivered"), 0)
    for row in frames["funnel"].collect():
        counts[row["stage"]] += row["count"]
    assert (counts["envelopes"], counts["queued"], counts["delivered"]) == (3, 3, 3)
