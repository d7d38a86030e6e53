"""When rules were in force, and how they wanted an envelope."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
import sr25519
from pyspark.sql import DataFrame, SparkSession

from clarion.decisions import Wanted
from clarion.networks import SIMPLEX, STATEMENTS
from clarion.networks.statements.codec import Statement
from clarion.networks.statements.rules import CALL, key_of
from clarion.networks.statements.signature import sign
from pipeline.columns import EventKind
from pipeline.in_force.rules import in_force, rule_changes, without_seams
from pipeline.lake.dedup import latest_subscriptions
from pipeline.lake.schemas import SCHEMAS
from pipeline.period import FOREVER
from pipeline.reconciliation.wanted import answer_batches, asked, expected, with_answers
from tests import toy

SENDER, CLIENT = b"a" * 32, b"c" * 32
FIRST, SECOND, OTHER = b"\x01first", b"\x01second", b"\x01other"
SPANS = (
    "subscription_id string, client_id binary, channel string, key binary, condition binary, condition_digest binary, "
    "since long, until long"
)
ENVELOPES = (
    "receipt string, network string, envelope_id binary, sender binary, keys array<binary>, plain array<string>, "
    "may array<string>, about string, first_at long, last_at long"
)
ANSWERED = (
    "receipt string, subscription_id string, network string, envelope_id binary, sender binary, keys array<binary>, "
    "client_id binary, channel string, about string, place int, certain boolean, answers array<string>"
)
SECRET = "own_message alert background"
type Rules = list[tuple[int, str, str, int, int, list[bytes]]]
type Subscriptions = list[tuple[int, str, str, int, int]]


class Decided(NamedTuple):
    key: bytes
    wanted: str | None
    certain: bool
    refusal: str | None
    refusals: list[str] | None


def changed(spark: SparkSession, rules: Rules) -> DataFrame:
    rows = [(at, STATEMENTS, *rest, [(key, None, None) for key in keys]) for at, *rest, keys in rules]
    return spark.createDataFrame(rows, SCHEMAS[EventKind.RULES])


def states(spark: SparkSession, subscriptions: Subscriptions) -> DataFrame:
    rows = [(at, STATEMENTS, who, CLIENT, "fcm", status, None, gen, rev) for at, who, status, gen, rev in subscriptions]
    return spark.createDataFrame(rows, SCHEMAS[EventKind.SUBSCRIPTION])


def spans(spark: SparkSession, rules: Rules, subscriptions: Subscriptions) -> list[tuple[bytes, int, int]]:
    found = in_force(rule_changes(changed(spark, rules)), states(spark, subscriptions))
    rows = found.select("key", "since", "until").collect()
    return sorted((bytes(row[0]), row[1], row[2]) for row in rows)


def test_a_rule_is_in_force_from_its_addition_to_its_removal(spark: SparkSession) -> None:
    rules: Rules = [
        (10, "added", "s", 1, 1, [FIRST]), (20, "removed", "s", 1, 2, [FIRST]), (30, "added", "s", 1, 3, [FIRST]),
    ]  # fmt: skip
    assert spans(spark, rules, [(0, "s", "active", 1, 0)]) == [(FIRST, 10, 20), (FIRST, 30, FOREVER)]


def test_a_condition_is_in_force_until_another_replaces_it(spark: SparkSession) -> None:
    rows = [(at, STATEMENTS, "added", "s", 1, at, [(FIRST, word, None)]) for at, word in ((10, None), (20, CALL))]
    changes = rule_changes(spark.createDataFrame(rows, SCHEMAS[EventKind.RULES]))
    found = in_force(changes, states(spark, [(0, "s", "active", 1, 0)])).select("condition", "since", "until")
    assert sorted(map(tuple, found.collect()), key=lambda row: row[1]) == [(None, 10, 20), (CALL, 20, FOREVER)]


def test_a_replaced_rule_set_ends_with_its_generation(spark: SparkSession) -> None:
    rules: Rules = [(10, "added", "s", 1, 1, [FIRST]), (19, "added", "s", 2, 2, [OTHER])]
    changes: Subscriptions = [(0, "s", "active", 1, 0), (20, "s", "active", 2, 2)]
    assert spans(spark, rules, changes) == [(FIRST, 10, 20), (OTHER, 20, FOREVER)]


def test_events_that_change_nothing_of_a_rule_end_nothing(spark: SparkSession) -> None:
    """A new token, and the same rule in another generation beside a new one; then it was out of force for a while."""
    rules: Rules = [(10, "added", "s", 1, 1, [FIRST]), (29, "added", "s", 2, 3, [FIRST, OTHER])]
    changes: Subscriptions = [
        (0, "s", "active", 1, 1), (20, "s", "active", 1, 2), (30, "s", "active", 2, 3),
        (50, "s", "invalid", 2, 4), (60, "s", "active", 2, 5), (70, "s", "active", 2, 6),
    ]  # fmt: skip
    found = without_seams(in_force(rule_changes(changed(spark, rules)), states(spark, changes)))
    assert sorted((bytes(row["key"]), row["since"], row["until"]) for row in found.collect()) == [
        (FIRST, 10, 50), (FIRST, 60, FOREVER), (OTHER, 30, 50), (OTHER, 60, FOREVER),
    ]  # fmt: skip


def test_rules_rest_while_the_subscription_is_invalid_and_end_with_it(spark: SparkSession) -> None:
    rules: Rules = [(10, "added", "s", 1, 1, [FIRST])]
    changes: Subscriptions = [
        (0, "s", "active", 1, 0), (20, "s", "invalid", 1, 1), (30, "s", "active", 1, 1), (40, "s", "removed", 1, 1),
    ]  # fmt: skip
    assert spans(spark, rules, changes) == [(FIRST, 10, 20), (FIRST, 30, 40)]


@pytest.mark.parametrize(
    ("network", "found"),
    [(STATEMENTS, [(10, 20), (30, FOREVER)]), (SIMPLEX, [(10, 20), (20, 30), (30, FOREVER)])],
)
def test_rules_of_a_pending_subscription_are_in_force_only_where_newest_items_are_kept(
    spark: SparkSession, network: str, found: list[tuple[int, int]]
) -> None:
    changes: Subscriptions = [(0, "s", "active", 1, 0), (20, "s", "pending", 1, 1), (30, "s", "active", 1, 2)]
    rows = [(at, network, who, CLIENT, "apns", status, None, gen, rev) for at, who, status, gen, rev in changes]
    subscriptions = spark.createDataFrame(rows, SCHEMAS[EventKind.SUBSCRIPTION])
    rules = rule_changes(changed(spark, [(10, "added", "s", 1, 1, [FIRST])]))
    assert sorted((row["since"], row["until"]) for row in in_force(rules, subscriptions).collect()) == found


def test_revisions_order_what_clocks_confuse(spark: SparkSession) -> None:
    changes: Subscriptions = [(21, "s", "active", 1, 3), (20, "s", "removed", 1, 4)]
    assert spans(spark, [(10, "added", "s", 1, 1, [FIRST])], changes) == []
    assert [row["status"] for row in latest_subscriptions(states(spark, changes)).collect()] == ["removed"]


def matched(spark: SparkSession, hot_rules: int) -> list[tuple[str, bytes, int, bool]]:
    rules: DataFrame = spark.createDataFrame(
        [
            *((f"s{number}", CLIENT, "fcm", SECOND, None, None, 0, FOREVER) for number in range(5)),
            ("s0", CLIENT, "fcm", FIRST, None, None, 0, FOREVER),
            ("new", CLIENT, "fcm", SECOND, None, None, 1_005, FOREVER),
            ("old", CLIENT, "fcm", SECOND, None, None, 0, 980),
            ("else", CLIENT, "fcm", OTHER, None, None, 0, FOREVER),
        ],
        SPANS,
    )
    keys, plain = [FIRST, SECOND], ["alert"] * 2
    row = ("r", STATEMENTS, b"h", SENDER, keys, plain, None, "all", 1_000, 1_002)
    envelopes = spark.createDataFrame([row], ENVELOPES)
    found = asked(envelopes, rules, grace_ms=10, hot_rules=hot_rules).collect()
    return sorted((row["subscription_id"], keys[row["place"]], row["place"], row["certain"]) for row in found)


def test_each_rule_that_names_a_key_of_the_envelope_is_asked(spark: SparkSession) -> None:
    certain = [(f"s{number}", SECOND, 1, True) for number in range(5)]
    assert matched(spark, hot_rules=100) == sorted([*certain, ("s0", FIRST, 0, True), ("new", SECOND, 1, False)])


def test_a_hot_key_is_matched_as_any_other(spark: SparkSession) -> None:
    assert matched(spark, hot_rules=2) == matched(spark, hot_rules=100)


def decided(spark: SparkSession, *rules: tuple[bytes, str, bool]) -> Decided:
    """What is expected where the rules have answered: each with its key, its answers, and whether it was surely there."""
    keys = [key for key, _, _ in rules]
    rows = [
        ("r", "s", STATEMENTS, b"h", SENDER, keys, CLIENT, "fcm", "all", place, certain, answers.split())
        for place, (_, answers, certain) in enumerate(rules)
    ]
    [row] = expected(spark.createDataFrame(rows, ANSWERED)).collect()
    return Decided(*(row[name] for name in Decided._fields))


@pytest.mark.parametrize(
    ("rules", "key", "wanted"),
    [
        ([(FIRST, "alert", True), (SECOND, "call", True)], FIRST, "call"),
        ([(FIRST, "background", True), (SECOND, "alert", True)], FIRST, "alert"),
        ([(FIRST, "own_message", True), (SECOND, "alert", True)], SECOND, "alert"),
        ([(FIRST, "alert", False), (SECOND, "alert", True)], SECOND, "alert"),
        ([(FIRST, SECRET, True), (SECOND, "alert", True)], SECOND, "alert"),
        ([(FIRST, "alert background", True)], FIRST, None),
    ],
)
def test_of_several_rules_the_most_urgent_counts_under_the_first_key_that_pushes(
    spark: SparkSession, rules: list[tuple[bytes, str, bool]], key: bytes, wanted: str | None
) -> None:
    assert decided(spark, *rules) == Decided(key, wanted, certain=True, refusal=None, refusals=None)


@pytest.mark.parametrize(
    "rules",
    [[(FIRST, "not_pushable own_message", True)], [(FIRST, "not_pushable", True), (SECOND, "own_message", True)]],
)
def test_if_no_rule_may_push_its_answers_say_why(spark: SparkSession, rules: list[tuple[bytes, str, bool]]) -> None:
    assert decided(spark, *rules) == Decided(FIRST, None, False, "own_message or not_pushable", None)


@pytest.mark.parametrize(
    ("rules", "certain", "refusals"),
    [
        ([(FIRST, SECRET, True)], True, ["own_message"]),
        ([(FIRST, SECRET, False)], False, ["own_message"]),
        ([(FIRST, SECRET, True), (SECOND, "not_pushable", True)], True, ["own_message", "not_pushable"]),
        ([(FIRST, "alert", False), (SECOND, "own_message", True)], False, None),
    ],
)
def test_where_a_secret_decides_all_that_it_may_refuse_by_is_known(
    spark: SparkSession, rules: list[tuple[bytes, str, bool]], refusals: list[str] | None, *, certain: bool
) -> None:
    found = decided(spark, *rules)
    assert (found.certain, found.refusal, found.refusals) == (certain, None, refusals)


def test_a_network_gives_its_answer_to_a_condition_and_all_it_may_give_to_a_digest(spark: SparkSession) -> None:
    """To a rule without either it has given it already."""
    keys = sr25519.pair_from_seed(sha256(b"alice").digest())
    statement = sign(Statement(0xFFFFFFFF << 32, (b"t" * 32, b"u" * 32), b"hello"), keys)
    named, other = (key_of(keys[0], topic) for topic in statement.topics)
    rules = spark.createDataFrame(
        [
            ("call", CLIENT, "fcm", named, CALL, None, 0, FOREVER),
            ("plain", CLIENT, "fcm", other, None, None, 0, FOREVER),
            ("secret", CLIENT, "fcm", named, None, b"d" * 32, 0, FOREVER),
        ],
        SPANS,
    )
    row = ("r", STATEMENTS, statement.hash, keys[0], [named, other], ["call", "background"], None, "all", 1_000, 1_002)
    envelopes = spark.createDataFrame([row], ENVELOPES)
    observed = spark.createDataFrame(
        [(1_000, STATEMENTS, "r", 1_000, statement.encoded, None)] * 2, SCHEMAS[EventKind.OBSERVED]
    )
    answered = with_answers(asked(envelopes, rules, grace_ms=10), observed, None)
    found = {row["subscription_id"]: row["answers"] for row in answered.collect()}
    assert found == {"call": [Wanted.CALL], "plain": [Wanted.BACKGROUND], "secret": [Wanted.CALL, Wanted.ALERT]}
    assert answered.count() == 3


def test_where_no_condition_is_known_nothing_is_read_again(spark: SparkSession) -> None:
    rules = [
        ("plain", CLIENT, "fcm", SECOND, None, None, 0, FOREVER), ("secret", CLIENT, "fcm", SECOND, None, b"d", 0, FOREVER),
    ]  # fmt: skip
    row = ("r", STATEMENTS, b"h", SENDER, [FIRST, SECOND], ["call", "alert"], ["own_message"], "all", 1_000, 1_002)
    matched = asked(spark.createDataFrame([row], ENVELOPES), spark.createDataFrame(rules, SPANS), grace_ms=10)
    answered = with_answers(matched, spark.createDataFrame([], SCHEMAS[EventKind.OBSERVED]), None)
    assert {each.subscription_id: each.answers for each in answered.collect()} == {
        "plain": ["alert"], "secret": ["own_message"],
    }  # fmt: skip
    assert answered.sameSemantics(matched)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    (tmp_path / "large").write_bytes(toy.say("hi", mark=toy.mark_of(b"mine", "hi")))
    return tmp_path


@pytest.mark.usefixtures("toy")
def test_a_network_is_asked_with_each_condition_and_the_envelope(large: Path) -> None:
    """In this process, since Spark's have no toy network."""
    conditions = [toy.condition_of(wanted, secret) for wanted, secret in ((Wanted.CALL, b"x"), (Wanted.ALERT, b"mine"))]
    key = toy.key_of("hall")
    known = [{"key": key, "condition": condition, "secret": False} for condition in conditions]
    rules = [*known, {"key": key, "condition": b"", "secret": True}]
    row = {"receipt": "r", "network": toy.TOY, "raw": None, "location": "large", "decided_at": 1, "rules": rules}
    answers = _table(answer_batches([pa.RecordBatch.from_pylist([row])], str(large)))
    assert [answer["answers"] for answer in answers] == [[Wanted.CALL], [Wanted.OWN_MESSAGE], [*Wanted]]
    assert [answer["condition"] for answer in answers] == [*conditions, b""]


def _table(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]
