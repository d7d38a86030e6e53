"""Histories of pairs, each with what contradicts it. All are judged at once, in one frame, each as a client's own."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from clarion.limiter import Limit
from pipeline.findings import Difference
from pipeline.in_force.limits import LimitHistory, LimitSpan
from pipeline.period import FOREVER
from pipeline.reconciliation.verdicts import COMPARISON, contradictions

HOUR = 3_600_000
CHANGED = 10 * HOUR
LIMIT = Limit(count=3, window=60_000, cooldown=120_000)
LONGER = Limit(count=3, window=60_000, cooldown=600_000)
CAP = Limit(count=300, window=60_000, cooldown=0)
CHANGING = (LimitSpan(0, CHANGED, LIMIT, CAP), LimitSpan(CHANGED, FOREVER, LONGER, CAP))
LIMITS = LimitHistory(
    {
        "limited": (LimitSpan(0, FOREVER, LIMIT, CAP),),
        "changing": CHANGING,
        "free": (LimitSpan(0, FOREVER, None, CAP),),
    },
    grace=15_000,
)
TYPES: dict[str, DataType] = {
    **dict.fromkeys(("envelope_id", "sender", "client_id", "key"), BinaryType()),
    **dict.fromkeys(("at", "order", "judged_at"), LongType()),
    **dict.fromkeys(("counted", "full", "overfull", "sure", "judged"), BooleanType()),
    "refusals": ArrayType(StringType()),
}
SCHEMA = StructType([StructField(name, TYPES.get(name, StringType())) for name in COMPARISON])

type Row = dict[str, Any]
type Found = list[tuple[str, str]]


def compared(number: int, at: int, found: str | None, **other: object) -> Row:
    """One of a healthy history; its receipt is `r` and its number, unless `other` says otherwise."""
    return {
        "receipt": f"r{number}", "subscription_id": "s", "envelope_id": number.to_bytes(32), "sender": b"a", "key": b"t",
        "channel": "apns", "wanted": None, "at": at, "order": None, "found": found, "judged_at": at, "counted": None,
        "full": False, "overfull": False, "against": None, "refusals": [], "sure": "against" not in other,
        "of_envelope": None if found is None else "matched", "judged": True, "network": "limited",
    } | other  # fmt: skip


def each(rows: Sequence[Row], **other: object) -> list[Row]:
    return [row | other for row in rows]


def missing(*numbers: int) -> Found:
    return [(f"r{number}", Difference.MISSING) for number in numbers]


def dropped(*numbers: int) -> Found:
    return [(f"r{number}", Difference.WRONGLY_DROPPED) for number in numbers]


def unexpected(*numbers: int) -> Found:
    return [(f"r{number}", Difference.UNEXPECTED) for number in numbers]


def flood(begin: int = 0) -> list[Row]:
    """Three that pass, and a fourth that starts a cooldown."""
    return [
        compared(number, begin + number * 1_000, "queued" if number < 3 else "rate_limited", counted=True)
        for number in range(4)
    ]


LATE = 3_000 + LIMIT.cooldown + 60_000
APART = [compared(number, number * HOUR, "queued") for number in range(4)]
TWICE = [compared(1, 0, "queued"), compared(1, 9_000, "duplicate", receipt="r2")]
RACED = [compared(number, 10_000 + number * 100, "queued", order=number + 1) for number in range(3)]
PHONE = [compared(number, number, "queued", order=number + 1, counted=True) for number in range(3)]
OTHER_PHONE = each(PHONE, subscription_id="other", order=3, counted=False, at=9)
REFUSED = compared(3, 10, "rate_limited", order=4, counted=True)
BACKLOG = [compared(n, 50 * 60_000 + n, "queued", judged_at=n * 20_000, order=n + 1, counted=True) for n in range(40)]
RETRIED = compared(0, 9_000, "queued", judged_at=0, order=4, counted=False)
COUNTED = [compared(number, number * 1_000, "queued", order=number + 1, counted=True) for number in (1, 2)]
SWALLOWED = [compared(number, number * 1_000, None) for number in range(3)]
REFUSED_AFTER = [compared(number, number * 1_000, "rate_limited", counted=True) for number in (8, 9)]
LONG_AFTER = [compared(number, number * HOUR, "queued") for number in (20, 21)]
OWN = compared(1, 0, None, refusals=["own_message"])
OWN_AGAIN = OWN | {"receipt": "r2", "at": 9, "found": "own_message", "of_envelope": "matched"}

HISTORIES: Mapping[str, tuple[list[Row], Found]] = {
    "nothing is wrong with what is apart": (APART, []),
    "nothing is wrong with a flood that is limited": (flood(), []),
    "no limit bears out these drops": (
        [*APART, compared(4, 4 * HOUR, "rate_limited"), compared(5, 4 * HOUR + 1_000, "rate_limited")], dropped(4, 5),
    ),
    "a drop no limit bears out, of few": ([compared(1, 0, "rate_limited")], dropped(1)),
    "over the limit": ([compared(number, number * 1_000, "queued") for number in range(5)], unexpected(3, 4)),
    "over the limit, but not judged": (
        [compared(number, number * 1_000, "queued", judged=number < 4) for number in range(5)], unexpected(3),
    ),
    "without a sender there is no limit": (
        [compared(number, number, "queued", sender=None) for number in range(9)], [],
    ),
    "a network without limits": ([compared(number, number, "queued", network="free") for number in range(9)], []),
    "refused where there is no limit": (
        [compared(number, number, "rate_limited" if number == 5 else "queued", network="free") for number in range(9)],
        dropped(5),
    ),
    "refused late, observed in a cooldown": ([*flood(), compared(4, LATE, "rate_limited", judged_at=100_000)], []),
    "refused after a cooldown": ([*flood(), compared(4, LATE, "rate_limited")], dropped(4)),
    "queued late, observed in a cooldown": ([*flood(), compared(4, LATE, "queued", judged_at=100_000)], unexpected(4)),
    "queued after a cooldown": ([*flood(), compared(4, LATE, "queued")], []),
    "a swallowed flood is missed up to the limit": (
        [compared(number, number * 1_000, None) for number in range(10)], missing(0, 1, 2),
    ),
    "two receipts, pushed once": (TWICE, []),
    "two receipts, pushed twice": ([TWICE[0], TWICE[1] | {"found": "queued"}], unexpected(2)),
    "two receipts, pushed twice and counted by none": (
        [TWICE[0] | {"counted": False}, TWICE[1] | {"found": "queued", "counted": False}], unexpected(2),
    ),
    "two receipts, the second pushed": ([TWICE[0] | {"found": None}, TWICE[1] | {"found": "queued"}], []),
    "two receipts, both swallowed": (each(TWICE, found=None), missing(1)),
    "two receipts, one swallowed and one refused wrongly": (
        [TWICE[0] | {"found": None}, TWICE[1] | {"found": "rate_limited"}], dropped(2),
    ),
    "two receipts, none pushed": (each(TWICE, found="duplicate"), dropped(1)),
    "two receipts of a crowded pair, pushed twice": (
        [*flood(3 * HOUR), compared(7, 0, "queued"), compared(7, 9_000, "queued", receipt="r8")], unexpected(8),
    ),
    "two receipts, of which a limit refuses the first": (
        [*flood(), compared(5, 90_000, None), compared(5, 300_000, None, receipt="r6")], [],
    ),
    "nobody asked for it": ([compared(1, 0, "queued", against="bad_signature")], unexpected(1)),
    "nobody asked for a duplicate": ([compared(1, 0, "duplicate", against="bad_signature")], []),
    "nobody asked for it before the period": ([compared(1, 0, "queued", against="expired", judged=False)], []),
    "clocks differ": ([*RACED, compared(3, 9_000, "rate_limited", order=4)], []),
    "clocks differ, and nobody knows the order": (
        [*each(RACED, order=None), compared(3, 9_000, "rate_limited")], dropped(3),
    ),
    "two phones, of which the second passes uncounted": ([*PHONE, *OTHER_PHONE, REFUSED], []),
    "two phones, not so many": ([*PHONE[:2], *OTHER_PHONE[:2], REFUSED | {"order": 3}], dropped(3)),
    "a backlog": (BACKLOG, []),
    "a backlog with a drop": ([BACKLOG[0] | {"found": "rate_limited"}, *BACKLOG[1:]], dropped(0)),
    "only the retry of what was counted was recorded": (
        [RETRIED, *COUNTED, compared(3, 3_000, "rate_limited", order=4, counted=True)], [],
    ),
    "the limit has no space for a retry": (
        [RETRIED, *COUNTED, compared(4, 2_500, "queued", order=3, counted=True)], unexpected(0),
    ),
    "capped in a full window": ([compared(1, 0, "capped", full=True)], []),
    "capped": ([compared(1, 0, "capped")], dropped(1)),
    "queued beyond twice the cap": ([compared(1, 0, "queued", overfull=True)], unexpected(1)),
    "refused after lost ones that were counted": ([*SWALLOWED, *REFUSED_AFTER], missing(0, 1, 2)),
    "refused after too few lost ones": (
        [*SWALLOWED[1:], *REFUSED_AFTER[:1], *LONG_AFTER], [*missing(1, 2), *dropped(8)],
    ),
    **{
        f"{found} {after // 1_000} s after a flood, {when} a change of the cooldown": (
            each([*flood(begin), compared(4, begin + after, found, counted=True)], network="changing"), wrong,
        )
        for when, begin, after, found, wrong in (
            ("before", CHANGED - HOUR, 200_000, "queued", []),
            ("before", CHANGED - HOUR, 200_000, "rate_limited", dropped(4)),
            ("after", CHANGED + HOUR, 200_000, "rate_limited", []),
            ("after", CHANGED + HOUR, 200_000, "queued", unexpected(4)),
            ("next to", CHANGED - 10_000, 130_000, "queued", []),
            ("next to", CHANGED - 10_000, 130_000, "rate_limited", []),
        )
    },
    "refused as its own": ([compared(1, 0, "own_message")], dropped(1)),
    "refused as its own, which it is": ([compared(1, 0, "own_message", against="own_message")], []),
    "its own, but queued": ([compared(1, 0, "queued", against="own_message")], unexpected(1)),
    "a secret decides: never decided": ([OWN], missing(1)),
    "a secret decides, perhaps: never decided": ([OWN | {"sure": False}], []),
    **{
        f"a secret decides: {word}": ([OWN | {"found": word, "of_envelope": "matched"}], wrong)
        for word, wrong in (
            ("queued", []), ("own_message", []), ("not_pushable", dropped(1)), ("rate_limited", dropped(1)),
            ("capped", dropped(1)), ("duplicate", dropped(1)),
        )
    },
    "a secret decides: its own, by two receipts": ([OWN, OWN_AGAIN], []),
    "no secret decides: its own, by two receipts": ([OWN | {"refusals": []}, OWN_AGAIN], missing(1)),
    "a secret decides: swallowed twice": ([OWN, OWN_AGAIN | {"found": None}], missing(1)),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, Found]:
    rows = [
        tuple((row | {"client_id": name.encode()})[column] for column in COMPARISON)
        for name, (history, _) in HISTORIES.items()
        for row in history
    ]
    found: dict[str, Found] = {name: [] for name in HISTORIES}
    for row in contradictions(spark.createDataFrame(rows, SCHEMA), LIMITS).collect():
        found[bytes(row.client_id).decode()].append((row.receipt, row.difference))
    return found


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_is_contradicted_where_it_is_wrong(name: str, found: dict[str, Found]) -> None:
    assert sorted(found[name]) == sorted(HISTORIES[name][1])
