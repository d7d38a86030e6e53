"""Made-up tables of a report, for days that went in different ways."""

from collections.abc import Sequence

from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path
from pipeline.report.about import About
from pipeline.report.summary import Row

START = 1_795_132_800_000
"""2026-11-20."""
PERIOD = Period(START, START + DAY_MS)
OUTAGE = START + 14 * HOUR_MS
HOURS = range(PERIOD.start, PERIOD.end, HOUR_MS)
RECEIPT, SUBSCRIPTION = "0192d3a4-7c1e-7abc-8def-0123456789ab", "7f3c2b1a-0d9e-4f87-a6b5-c4d3e2f1a0b9"
KEY = bytes(range(32)).hex()

type MadeUp = dict[str, Sequence[Row]]


ABOUT = About(
    period=PERIOD,
    lake="s3://clarion-lake",
    now=PERIOD.end + 2 * HOUR_MS,
    made=PERIOD.end + 2 * HOUR_MS + 90_000,
    stage="prod",
    oversize="s3://clarion-large",
    newest=hour_path(PERIOD.end),
)


def healthy() -> MadeUp:
    """200 notifications an hour, more at noon, all wanted ones delivered but for two dead tokens an hour."""
    return {
        "notifications": [_reached(hour, network, channel) for hour in HOURS for network, channel in _WAYS],
        "latency": [_latency(hour, channel) for hour in HOURS for _, channel in _WAYS],
        "latency_whole": [_latency(START, channel) for _, channel in _WAYS],
        "drops": [
            {"stage": "envelope", "decision": "unmatched", "reason": None, "count": 180_422},
            {"stage": "notification", "decision": "rate_limited", "reason": None, "count": 5_120},
            {"stage": "push", "decision": "token_gone", "reason": "Unregistered", "count": 48},
            {"stage": "push", "decision": "refused", "reason": "PayloadTooLarge", "count": 3},
        ],
        "dead_tokens": [{"hour": hour, "channel": "apns", "subscriptions": 1 + hour // HOUR_MS % 3} for hour in HOURS],
        "senders": [
            {"sender": KEY, "notifications": 4_012, "receivers": 37, "rate_limited": 1_204},
            {"sender": b"/xmtp/mls/1/g-00ff/proto".hex(), "notifications": 812, "receivers": 12, "rate_limited": 0},
        ],
        "rules": [{"hour": hour, "rules": 100_000 + 40 * place} for place, hour in enumerate(HOURS)],
        "cost": [
            {"stage": "push", "decision": "delivered", "count": 9_800, "dollars": 0.0049},
            {"stage": "envelope", "decision": "unmatched", "count": 180_422, "dollars": 0.0318},
            {"stage": "envelope", "decision": "malformed", "count": 12, "dollars": 0.0},
        ],
        "differences": [],
        "examples": [],
        "hours": [_sealed(hour) for hour in HOURS],
        "limits": [
            {"network": "statements", "since": 0, "pair": "30 in 60 s, then none for 120 s", "cap": "300 in 60 s"},
            {"network": "xmtp", "since": 0, "pair": "none", "cap": "300 in 60 s"},
        ],
    }


def outage() -> MadeUp:
    """1,317 pushes were lost at two o'clock; some others went wrong, as on many days."""
    found = [
        _difference(OUTAGE, "missing", "statements", 1_210),
        _difference(OUTAGE + HOUR_MS, "missing", "statements", 107),
        _difference(START + 3 * HOUR_MS, "late", "statements", 12),
        _difference(START + 20 * HOUR_MS, "unexpected", "xmtp", 5),
        _difference(START + 21 * HOUR_MS, "wrongly_dropped", "xmtp", 9),
    ]
    evidence = {
        "missing": "queued, but never tried",
        "late": "delivered after 93.4 s",
        "unexpected": "no rule in force",
        "wrongly_dropped": "rate_limited, though 3 of 30 had passed",
    }
    examples = [
        _example(row, place, evidence[str(row["difference"])])
        for row in found
        if row["hour"] != OUTAGE + HOUR_MS
        for place in range(3)
    ]
    rows = healthy()
    swallowed = {"tried": 0, "delivered": 0}
    reached = [{**row, **(swallowed if row["hour"] == OUTAGE else {})} for row in rows["notifications"]]
    return rows | {"notifications": reached, "differences": found, "examples": examples}


def empty() -> MadeUp:
    """Nothing happened, and each hour is sealed."""
    nothing: MadeUp = {name: [] for name in healthy()}
    nothing["rules"] = [{"hour": hour, "rules": 0} for hour in HOURS]
    nothing["hours"] = [_sealed(hour, 0) for hour in HOURS]
    return nothing | {"limits": healthy()["limits"]}


def incomplete() -> MadeUp:
    """A healthy day but for three hours: one is missing, one half written, one emptier than it should be."""
    problems = {
        5: "nothing has arrived",
        6: "it was not over when it was compacted",
        23: "1204 lines have arrived, of 99817 records at least",
    }
    hours = [{**_sealed(hour), "problem": problems.get(place)} for place, hour in enumerate(HOURS)]
    return healthy() | {"hours": hours}


def provisional() -> MadeUp:
    """The last two hours are not over yet."""
    hours = [_sealed(hour) for hour in HOURS]
    return healthy() | {"hours": [*hours[:-2], *({**hour, "sealed_at": None} for hour in hours[-2:])]}


def not_compared() -> MadeUp:
    """`reconcile` has not been run."""
    return {name: rows for name, rows in healthy().items() if name not in {"differences", "examples"}}


def hostile(text: str) -> MadeUp:
    """`text` wherever a stranger's words may come from, and in the rest."""
    rows = outage()
    who = dict.fromkeys(("network", "evidence", "receipt", "subscription_id", "channel"), text)
    return rows | {
        "drops": [{"stage": "push", "decision": "refused", "reason": text, "count": 3}],
        "senders": [{"sender": text.encode().hex(), "notifications": 2, "receivers": 1, "rate_limited": 1}],
        "differences": [{**row, "network": text} for row in rows["differences"]],
        "examples": [{**row, **who, "sender": text.encode().hex()} for row in rows["examples"]],
        "hours": [{**row, "problem": text} for row in rows["hours"]],
        "limits": [{**row, "network": text, "pair": text, "cap": text} for row in rows["limits"]],
        "latency_whole": [{**row, "channel": text} for row in rows["latency_whole"]],
    }


DAYS = {
    "outage": outage,
    "healthy": healthy,
    "empty": empty,
    "incomplete": incomplete,
    "provisional": provisional,
    "not compared": not_compared,
}

_WAYS = (("statements", "apns"), ("statements", "fcm"), ("xmtp", "voip"))


def earlier() -> list[tuple[int, MadeUp | None]]:
    """Six days, two of which have no report."""
    days = [healthy(), healthy(), None, outage(), incomplete(), None]
    return [(START - (len(days) - place) * DAY_MS, tables) for place, tables in enumerate(days)]


def _reached(hour: int, network: str, channel: str) -> Row:
    wanted = 60 + 12 * min((hour - START) // HOUR_MS, (PERIOD.end - hour) // HOUR_MS)
    counts = {
        "asked": wanted + 20,
        "wanted": wanted,
        "queued": wanted,
        "tried": wanted,
        "delivered": wanted - 2,
        "unwanted": 0,
    }
    return {"hour": hour, "network": network, "channel": channel, **counts}


def _latency(hour: int, channel: str) -> Row:
    slower = 1 + (hour - START) // HOUR_MS % 5
    return {
        "hour": hour,
        "channel": channel,
        "p50": 180 * slower,
        "p90": 420 * slower,
        "p99": 900 * slower,
        "count": 900,
    }


def _sealed(hour: int, lines: int = 41_203) -> Row:
    return {"hour": hour_path(hour), "lines": lines, "sealed_at": hour + HOUR_MS + 1_200_000, "problem": None}


def _difference(hour: int, difference: str, network: str, count: int) -> Row:
    return {"hour": hour, "difference": difference, "network": network, "count": count}


def _example(row: Row, place: int, evidence: str) -> Row:
    who = {"receipt": RECEIPT[:-1] + str(place), "subscription_id": SUBSCRIPTION, "channel": "apns", "sender": KEY}
    return {
        "difference": row["difference"],
        "network": row["network"],
        "at": row["hour"] + place * 61_000,
        "evidence": evidence,
        "alike": row["count"],
        **who,
    }
