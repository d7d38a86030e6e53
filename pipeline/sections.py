"""The sections of the page that a healthy day has as well: what they show, for `page.html` to lay out.

What is text here is not escaped yet: the template does that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle

from markupsafe import Markup

from clarion.channels import CHANNELS
from pipeline import charts
from pipeline.charts import SERIES, ChartSeries
from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.summary import REACHED, Row, Summary, Tables, percent

COLOURS = dict(zip(map(str, CHANNELS), cycle(SERIES), strict=False))
"""Of the channels."""
PERCENTILES = ("p50", "p90", "p99")
_SHORT_KEY, _SHORT_TEXT = 12, 24
_MOST_DROPS = 14


@dataclass(frozen=True)
class Table:
    """The first `words` columns are words, the others numbers. `shares`, from 0 to 1, are drawn as a bar in each row."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    shares: Sequence[float] = ()


@dataclass(frozen=True)
class Plot:
    """A chart with its legend, name by colour, and the same as a table."""

    title: str
    legend: Mapping[str, str]
    svg: Markup
    table: Table


@dataclass(frozen=True)
class Section:
    """What it has to say, if there is nothing to show, is in its `text`."""

    title: str
    text: str
    plots: Sequence[Plot] = ()
    tables: Sequence[Table] = ()


def sections(tables: Tables, period: Period) -> list[Section]:
    return [
        _delivered(tables, period),
        _latency(tables, period),
        _drops(tables),
        _dead_tokens(tables, period),
        _senders(tables),
        _rules(tables, period),
        _cost(tables),
    ]


def funnel(summary: Summary) -> Section:
    counts = [summary.reached[stage] for stage in REACHED]
    before = [counts[0], *counts[:-1]]
    rows = [
        [words, f"{count:,}", percent(count, last) if last else "–"]
        for words, count, last in zip(REACHED.values(), counts, before, strict=True)
    ]
    table = Table(
        "Notifications that got so far", ("stage", "notifications", "of the one before"), rows, 1, _of(counts)
    )
    return Section(
        "How far notifications got", f"Each is one envelope for one subscription. Envelopes: {summary.envelopes:,}.", (), (table,)
    )  # fmt: skip


def week(days: Sequence[tuple[int, Summary | None]]) -> Section:
    """`days` are the beginnings of each, and what was reported of it, if anything was."""
    names = [f"{_day(start):%d}{'' if found else '*'}" for start, found in days]
    axis = "day of the month; *: no report"
    shares = [_share(found) for _, found in days]
    wrong = [float(sum(found.wrong.values())) if found and found.wrong is not None else None for _, found in days]
    table = Table(
        "The last seven days",
        ("day", "wanted", "delivered", "share", "differences", "hours unjudged"),
        [[f"{_day(start):%Y-%m-%d}", *_figures(found)] for start, found in days],
    )
    low = min((int(share) for share in shares if share is not None), default=0)
    plots = [
        Plot("Differences, by day", {}, charts.bars("Differences, by day", axis, names, [ChartSeries("differences", "c4", wrong)]), table),
        Plot("Delivered of wanted, %", {}, charts.lines("Delivered of wanted, by day", axis, names, [ChartSeries("delivered", "c1", shares)], low=low), table),
    ]  # fmt: skip
    return Section("The week", "From the reports of these days. A day without one is missing, not healthy.", plots)


def by_hour(title: str, rows: Iterable[Row], name: str, value: str, colours: Mapping[str, str], period: Period) -> Plot:
    """Bars of `value`, stacked by what `name` is; those in `colours` that occur."""
    counts = Counter[tuple[str, int]]()
    for row in rows:
        counts[row[name], row["hour"]] += row[value]
    hours, found = _hours(period), {each for each, _ in counts}
    series = [
        ChartSeries(each, colour, [counts[each, hour] for hour in hours])
        for each, colour in colours.items()
        if each in found
    ]
    return _by_hour(title, hours, charts.bars(title, _axis(hours), _labels(hours), series), series)


def _by_hour(title: str, hours: Sequence[int], svg: Markup, series: Sequence[ChartSeries]) -> Plot:
    columns = ([f"{value:,.0f}" if value is not None else "–" for value in one.values] for one in series)
    rows = [list(row) for row in zip((f"{_day(hour):%m-%d %H:%M}" for hour in hours), *columns, strict=True)]
    table = Table(title, ("hour, UTC", *(one.name for one in series)), rows)
    legend = {one.name: one.colour for one in series} if len(series) > 1 else {}
    return Plot(title, legend, svg, table)


def _delivered(tables: Tables, period: Period) -> Section:
    delivered = [row for row in tables["notifications"] if row["delivered"]]
    plots = [by_hour("Notifications delivered, by hour", delivered, "channel", "delivered", COLOURS, period)]
    return Section("Delivered", "" if delivered else "None.", plots if delivered else ())


def _latency(tables: Tables, period: Period) -> Section:
    """Of each hour the slowest channel, so that no average hides it."""
    if not tables["latency_whole"]:
        return Section("From observed to delivered", "Nothing was delivered.")
    hours = _hours(period)
    series = [
        ChartSeries(
            name,
            colour,
            [max((row[name] for row in tables["latency"] if row["hour"] == hour), default=None) for hour in hours],
        )
        for name, colour in zip(PERCENTILES, SERIES, strict=False)
    ]
    title = "Milliseconds of the slowest channel, by hour"
    plot = _by_hour(title, hours, charts.lines(title, _axis(hours), _labels(hours), series), series)
    rows = [
        [row["channel"], *(f"{row[name]:,}" for name in (*PERCENTILES, "count"))] for row in tables["latency_whole"]
    ]
    table = Table("Milliseconds, by channel", ("channel", *PERCENTILES, "delivered"), rows)
    return Section("From observed to delivered", "", [plot], [table])


def _drops(tables: Tables) -> Section:
    drops = tables["drops"][:_MOST_DROPS]
    rows = [[row["stage"], _why(row), f"{row['count']:,}"] for row in drops]
    table = Table("Ended at", ("stage", "decision", "count"), rows, 2, _of([row["count"] for row in drops]))
    text = "Unmatched is how it should be: nobody had asked. Counted are envelopes, notifications and attempts to push."
    return Section("Why the rest went no further", text, (), [table]) if drops else Section("Drops", "None.")


def _why(row: Row) -> str:
    decision = str(row["decision"]).replace("_", " ")
    return f"{decision}: {row['reason']}" if row["reason"] else decision


def _dead_tokens(tables: Tables, period: Period) -> Section:
    dead = tables["dead_tokens"]
    if not dead:
        return Section("Token deaths", "No provider declared a token dead.")
    total = sum(row["subscriptions"] for row in dead)
    plot = by_hour("Subscriptions whose token died, by hour", dead, "channel", "subscriptions", COLOURS, period)
    return Section("Token deaths", f"{total:,} in all. A dead token ends its subscription.", [plot])


def _senders(tables: Tables) -> Section:
    rows = [
        [sender_name(row["sender"]), *(f"{row[name]:,}" for name in ("notifications", "receivers", "rate_limited"))]
        for row in tables["senders"]
    ]
    if not rows:
        return Section("Heaviest senders", "No notification has a sender.")
    table = Table("By notifications", ("sender", "notifications", "receivers", "held by the limit"), rows)
    return Section("Heaviest senders", "By their keys or topics, and the most limited ones.", (), [table])


def sender_name(sender: str) -> str:
    """The first digits of a key, or the beginning of a text: keys of one network may begin alike."""
    text = bytes.fromhex(sender).decode("ascii", errors="ignore")
    is_text = 2 * len(text) == len(sender) and text.isprintable()
    return f"{text[:_SHORT_TEXT] if is_text else sender[:_SHORT_KEY]}…"


def _rules(tables: Tables, period: Period) -> Section:
    counts = {row["hour"]: row["rules"] for row in tables["rules"]}
    if not any(counts.values()):
        return Section("Rules in force", "None.")
    hours = _hours(period)
    series = [ChartSeries("rules", "c3", [counts.get(hour) for hour in hours])]
    title = "Rules in force at each full hour"
    low = 0.95 * min(counts.values())
    svg = charts.lines(title, _axis(hours), _labels(hours), series, low=int(low))
    return Section("Rules in force", "", [_by_hour(title, hours, svg, series)])


def _cost(tables: Tables) -> Section:
    priced = [row for row in tables["cost"] if row["dollars"] > 0]
    total = sum(row["dollars"] for row in priced)
    delivered = sum(row["delivered"] for row in tables["notifications"])
    rows = [
        [row["stage"], _why({**row, "reason": None}), f"{row['count']:,}", f"${row['dollars']:,.4f}"] for row in priced
    ]
    shares = _of([row["dollars"] for row in priced])
    table = Table("By decision", ("stage", "decision", "count", "dollars"), rows, 2, shares)
    each = f", ${1_000_000 * total / delivered:,.2f} for a million delivered" if delivered else ""
    text = (
        f"${total:,.4f}{each}. By the ledger: tables, messages and events, on demand; not the Lambdas' time, nor what "
        "runs all the time."
    )
    return Section("Cost", text, (), [table] if rows else ())


def _figures(found: Summary | None) -> list[str]:
    if not found:
        return ["no report", "–", "–", "–", "–"]
    wanted, delivered = (found.reached[stage] for stage in ("wanted", "delivered"))
    differences = "not compared" if found.wrong is None else f"{sum(found.wrong.values()):,}"
    share = percent(delivered, wanted) if wanted else "–"
    return [f"{wanted:,}", f"{delivered:,}", share, differences, f"{found.unjudged} of {found.hours}"]


def _share(found: Summary | None) -> float | None:
    if not found or not found.reached["wanted"]:
        return None
    return 100 * found.reached["delivered"] / found.reached["wanted"]


def _of(counts: Sequence[float]) -> list[float]:
    """Each as a share of the greatest."""
    most = max(counts, default=0) or 1
    return [count / most for count in counts]


def _hours(period: Period) -> list[int]:
    return list(range(period.start - period.start % HOUR_MS, period.end, HOUR_MS))


def _axis(hours: Sequence[int]) -> str:
    return "hour, UTC" if _in_a_day(hours) else "day and hour, UTC"


def _labels(hours: Sequence[int]) -> list[str]:
    pattern = "%H:%M" if _in_a_day(hours) else "%d. %Hh"
    return [_day(hour).strftime(pattern) for hour in hours]


def _in_a_day(hours: Sequence[int]) -> bool:
    return hours[-1] - hours[0] < DAY_MS


def _day(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)
