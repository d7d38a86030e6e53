from pyspark.sql import DataFrame, SparkSession

from pipeline.lake import SCHEMAS, Kind
from pipeline.match import wanted
from pipeline.rules import FOREVER, in_force, latest_subscriptions, rule_changes

SENDER, OTHER, TOPIC, CLIENT = b"a" * 32, b"b" * 32, b"t" * 32, b"c" * 32
SPANS = (
    "subscription_id string, client_id binary, channel string, sender binary, topic binary, "
    "wanted string, since long, until long"
)
STATEMENTS = (
    "receipt string, envelope_id binary, sender binary, topics array<binary>, first_at long, last_at long"
)
type Rules = list[tuple[int, str, str, int, int, list[tuple[bytes, bytes, None]]]]
type Subscriptions = list[tuple[int, str, str, int, int]]


def spans(spark: SparkSession, rules: Rules, subscriptions: Subscriptions) -> list[tuple[bytes, int, int]]:
    changed = spark.createDataFrame(rules, SCHEMAS[Kind.RULES])
    states = spark.createDataFrame(
        [(at, who, CLIENT, "fcm", status, None, gen, rev) for at, who, status, gen, rev in subscriptions],
        SCHEMAS[Kind.SUBSCRIPTION],
    )
    rows = in_force(rule_changes(changed), states).select("sender", "since", "until").collect()
    return sorted((bytes(row[0]), row[1], row[2]) for row in rows)


def test_a_rule_is_in_force_from_its_addition_to_its_removal(spark: SparkSession) -> None:
    rule = [(SENDER, TOPIC, None)]
    rules: Rules = [(10, "added", "s", 1, 1, rule), (20, "removed", "s", 1, 2, rule), (30, "added", "s", 1, 3, rule)]
    assert spans(spark, rules, [(0, "s", "active", 1, 0)]) == [(SENDER, 10, 20), (SENDER, 30, FOREVER)]


def test_a_replaced_rule_set_ends_with_its_generation(spark: SparkSession) -> None:
    rules: Rules = [(10, "added", "s", 1, 1, [(SENDER, TOPIC, None)]), (19, "added", "s", 2, 2, [(OTHER, TOPIC, None)])]
    changes: Subscriptions = [(0, "s", "active", 1, 0), (20, "s", "active", 2, 2)]
    assert spans(spark, rules, changes) == [(SENDER, 10, 20), (OTHER, 20, FOREVER)]


def test_rules_rest_while_the_subscription_is_invalid_and_end_with_it(spark: SparkSession) -> None:
    rules: Rules = [(10, "added", "s", 1, 1, [(SENDER, TOPIC, None)])]
    changes: Subscriptions = [
        (0, "s", "active", 1, 0), (20, "s", "invalid", 1, 1), (30, "s", "active", 1, 1), (40, "s", "removed", 1, 1),
    ]  # fmt: skip
    assert spans(spark, rules, changes) == [(SENDER, 10, 20), (SENDER, 30, 40)]


def test_revisions_order_what_clocks_confuse(spark: SparkSession) -> None:
    rules: Rules = [(10, "added", "s", 1, 1, [(SENDER, TOPIC, None)])]
    changes: Subscriptions = [(21, "s", "active", 1, 3), (20, "s", "removed", 1, 4)]
    assert spans(spark, rules, changes) == []
    states = spark.createDataFrame(
        [(21, "s", CLIENT, "fcm", "active", None, 1, 3), (20, "s", CLIENT, "fcm", "removed", None, 1, 4)],
        SCHEMAS[Kind.SUBSCRIPTION],
    )
    assert [row["status"] for row in latest_subscriptions(states).collect()] == ["removed"]


def matched(spark: SparkSession, hot_rules: int) -> list[tuple[str, str, bytes, bool]]:
    third = b"u" * 32
    rules: DataFrame = spark.createDataFrame(
        [
            *((f"s{number}", CLIENT, "fcm", SENDER, TOPIC, None, 0, FOREVER) for number in range(5)),
            ("s0", CLIENT, "fcm", SENDER, third, None, 0, FOREVER),
            ("new", CLIENT, "fcm", SENDER, TOPIC, None, 1_005, FOREVER),
            ("old", CLIENT, "fcm", SENDER, TOPIC, None, 0, 980),
            ("else", CLIENT, "fcm", OTHER, TOPIC, None, 0, FOREVER),
        ],
        SPANS,
    )
    statements = spark.createDataFrame([("r", b"h", SENDER, [third, TOPIC], 1_000, 1_002)], STATEMENTS)
    found = wanted(statements, rules, grace_ms=10, hot_rules=hot_rules).collect()
    return sorted((row["receipt"], row["subscription_id"], bytes(row["topic"]), row["certain"]) for row in found)


def test_each_subscription_wants_a_statement_once_for_its_first_topic(spark: SparkSession) -> None:
    third = b"u" * 32
    certain = [("r", f"s{number}", third if number == 0 else TOPIC, True) for number in range(5)]
    assert matched(spark, hot_rules=100) == sorted([*certain, ("r", "new", TOPIC, False)])


def test_a_hot_sender_is_matched_as_any_other(spark: SparkSession) -> None:
    assert matched(spark, hot_rules=2) == matched(spark, hot_rules=100)


def test_of_several_rules_for_calls_and_alerts_the_call_wins_under_the_first_topic(spark: SparkSession) -> None:
    third = b"u" * 32
    rules = spark.createDataFrame(
        [
            ("both", CLIENT, "fcm", SENDER, third, "alert", 0, FOREVER),
            ("both", CLIENT, "fcm", SENDER, TOPIC, "voip", 0, FOREVER),
            ("none", CLIENT, "fcm", SENDER, third, None, 0, FOREVER),
        ],
        SPANS,
    )
    statements = spark.createDataFrame([("r", b"h", SENDER, [third, TOPIC], 1_000, 1_002)], STATEMENTS)
    found = wanted(statements, rules, grace_ms=10).collect()
    types = {row["subscription_id"]: (bytes(row["topic"]), row["wanted"]) for row in found}
    assert types == {"both": (third, "voip"), "none": (third, None)}
