"""The part of the page that leads: what went wrong, when, in which network, with evidence and what to do about it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.findings import REPAIRABLE, Difference
from pipeline.period import HOUR_MS, instant_text
from pipeline.report.about import About
from pipeline.report.layout import Plot, ReportTable, bars_by_hour, series_by_hour, utc
from pipeline.report.sections import sender_name
from pipeline.report.summary import MEANING, WRONG, Row, Tables

COLOURS = {
    Difference.MISSING: "c4",
    Difference.WRONGLY_DROPPED: "c2",
    Difference.UNEXPECTED: "c6",
    Difference.LATE: "c1",
}


@dataclass(frozen=True)
class Group:
    """The differences of one kind and network. `examples` are rows of label and text.

    `replay` is the command that repairs them, if that can be done and every hour can be judged, and `explain` shows each step of the first example.
    """

    title: str
    meaning: str
    when: str
    replay: str | None
    explain: str | None
    examples: Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Wrong:
    groups: Sequence[Group]
    plot: Plot
    table: ReportTable


def wrong(tables: Tables, about: About) -> Wrong:
    rows = tables["differences"]
    named = [{**row, "difference": WRONG[Difference(row["difference"])]} for row in rows]
    colours = {WRONG[kind]: colour for kind, colour in COLOURS.items()}
    series = series_by_hour(named, "difference", "count", colours, about.period)
    lines = [[hour_text(row["hour"]), row["difference"], row["network"], f"{row['count']:,}"] for row in named]
    table = ReportTable("Differences by hour, kind and network", ("hour, UTC", "kind", "network", "count"), lines, 3)
    return Wrong(list(_groups(tables, about)), bars_by_hour("Differences, by hour", series, about.period), table)


def when(rows: Sequence[Row]) -> str:
    """In which hour all or most of these differences were, or in how many hours, and of which networks."""
    hours, networks = Counter[int](), Counter[str]()
    for row in rows:
        hours[row["hour"]] += row["count"]
        networks[row["network"]] += row["count"]
    [(hour, count)] = hours.most_common(1)
    named = f" ({', '.join(networks)})."
    span = f"between {hour_text(hour)} and {hour_text(hour + HOUR_MS)[-5:]} UTC{named}"
    if len(hours) == 1:
        return f"All {span}"
    if 2 * count > hours.total():
        return f"Most of them, {count:,}, {span}"
    return f"In {len(hours)} hours, at most {count:,} in one of them{named}"


def hour_text(instant: int) -> str:
    return f"{utc(instant):%Y-%m-%d %H:%M}"


def _groups(tables: Tables, about: About) -> Iterator[Group]:
    complete = not any(row["problem"] for row in tables["hours"])
    counts = Counter[tuple[str, str]]()
    for row in tables["differences"]:
        counts[row["difference"], row["network"]] += row["count"]
    for (difference, network), count in counts.most_common():
        kind, found = Difference(difference), _of(tables["examples"], difference, network)
        yield Group(
            title=f"{count:,} {WRONG[kind]}: {network}",
            meaning=MEANING[kind],
            when=when(_of(tables["differences"], difference, network)),
            replay=about.replay(difference=difference, network=network) if kind in REPAIRABLE and complete else None,
            explain=about.explain(found[0]["receipt"]) if found else None,
            examples=[_example(row) for row in found],
        )


def _of(rows: Sequence[Row], difference: str, network: str) -> list[Row]:
    return [row for row in rows if (row["difference"], row["network"]) == (difference, network)]


def _example(row: Row) -> dict[str, str]:
    return {
        "evidence": row["evidence"] or "never decided",
        "alike": f"{row['alike']:,}",
        "at": f"{instant_text(row['at'])} UTC",
        "receipt": row["receipt"],
        "subscription": f"{row['subscription_id']}, by {row['channel']}" if row["subscription_id"] else "nobody in particular",
        "sender": sender_name(row["sender"]) if row["sender"] else "none",
    }  # fmt: skip
