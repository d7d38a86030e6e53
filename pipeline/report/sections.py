"""The sections of the page that a healthy day has as well."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

from clarion.channels import CHANNELS
from pipeline.period import Period
from pipeline.report import charts
from pipeline.report.charts import SERIES, ChartSeries
from pipeline.report.layout import (
    Plot,
    ReportTable,
    Section,
    bars_by_hour,
    full_hours,
    lines_by_hour,
    series_by_hour,
    table_by_hour,
    utc,
)
from pipeline.report.summary import STAGES, Row, Summary, Tables, percent

COLOURS = dict(zip(map(str, CHANNELS), cycle(SERIES), strict=False))
"""Of the channels."""
WITHIN = {"p50": "50% within", "p90": "90% within", "p99": "99% within"}
_SHORT_KEY, _SHORT_TEXT = 12, 24
_MAX_DROPS = 14


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
    counts = [summary.reached[stage] for stage in STAGES]
    before = [counts[0], *counts[:-1]]
    rows = [
        [words, f"{count:,}", percent(count, last) if last else "-"]
        for words, count, last in zip(STAGES.values(), counts, before, strict=True)
    ]
    head = ("stage", "notifications", "of the one before")
    text = f"Each is one envelope for one subscription. {summary.envelopes:,} envelopes were decided."
    table = ReportTable("Notifications that got so far", head, rows, shares=_shares(counts))
    return Section("How far notifications got", text, tables=[table])


def week(days: Sequence[tuple[int, Summary | None]]) -> Section:
    """`days` are the beginnings of each, and what was reported of it, if anything was."""
    names = [f"{utc(start):%d}{'' if found else '*'}" for start, found in days]
    axis = "day of the month; *: no report"
    wrong = [float(sum(found.wrong.values())) if found and found.wrong is not None else None for _, found in days]
    shares = [_delivered_share(found) for _, found in days]
    low = min((int(share) for share in shares if share is not None), default=0)
    title, other = "Differences, by day", "Delivered of wanted, by day, in %"
    bars = charts.bars(title, axis, names, [ChartSeries("differences", "c4", wrong)])
    line = charts.lines(other, axis, names, [ChartSeries("delivered", "c1", shares)], (low, 100))
    head = ("day", "delivered of wanted", "share", "differences", "hours incomplete")
    rows = [[f"{utc(start):%m-%d}", *_figures(found)] for start, found in days]
    table = ReportTable("The last seven days", head, rows, words=0)
    text = "From the reports of these days. A day without one is missing, not healthy."
    return Section("The week", text, plots=[Plot(title, {}, bars), Plot(other, {}, line)], folded=[table])


def sender_name(sender: str) -> str:
    """The first digits of a key, or the beginning of a text: keys of one network may begin alike."""
    text = bytes.fromhex(sender).decode("ascii", errors="ignore")
    is_text = 2 * len(text) == len(sender) and text.isprintable()
    return f"{text[:_SHORT_TEXT] if is_text else sender[:_SHORT_KEY]}…"


def _delivered(tables: Tables, period: Period) -> Section:
    delivered = [row for row in tables["notifications"] if row["delivered"]]
    if not delivered:
        return Section("Delivered", "Nothing was delivered.")
    return _by_channel(Section("Delivered"), "Notifications delivered, by hour", delivered, "delivered", period)


def _dead_tokens(tables: Tables, period: Period) -> Section:
    dead = tables["dead_tokens"]
    if not dead:
        return Section("Token deaths", "No provider declared a token dead.")
    total = sum(row["subscriptions"] for row in dead)
    section = Section("Token deaths", f"{total:,} in all. A dead token ends its subscription.")
    return _by_channel(section, "Subscriptions whose token died, by hour", dead, "subscriptions", period)


def _by_channel(section: Section, title: str, rows: Sequence[Row], value: str, period: Period) -> Section:
    series = series_by_hour(rows, "channel", value, COLOURS, period)
    table = table_by_hour(title, series, period)
    return replace(section, plots=[bars_by_hour(title, series, period)], folded=[table])


def _latency(tables: Tables, period: Period) -> Section:
    """Of each hour the slowest channel, so that no average hides it."""
    if not tables["latency_whole"]:
        return Section("From observed to delivered", "Nothing was delivered.")
    series = [
        ChartSeries(words, colour, _slowest(tables["latency"], name, period))
        for (name, words), colour in zip(WITHIN.items(), SERIES, strict=False)
    ]
    title = "Milliseconds of the slowest channel, by hour"
    top = max(value or 0 for value in series[-1].values)
    rows = [[row["channel"], *(f"{row[name]:,}" for name in (*WITHIN, "count"))] for row in tables["latency_whole"]]
    return Section(
        "From observed to delivered",
        plots=[lines_by_hour(title, series, period, (0, top))],
        tables=[ReportTable("Milliseconds, by channel", ("channel", *WITHIN.values(), "delivered"), rows)],
        folded=[table_by_hour(title, series, period)],
    )


def _slowest(rows: Sequence[Row], name: str, period: Period) -> list[float | None]:
    return [max((row[name] for row in rows if row["hour"] == hour), default=None) for hour in full_hours(period)]


def _drops(tables: Tables) -> Section:
    drops = tables["drops"][:_MAX_DROPS]
    if not drops:
        return Section("Why the rest went no further", "Nothing was dropped.")
    rows = [[row["stage"], _why(row["decision"], row["reason"]), f"{row['count']:,}"] for row in drops]
    shares = _shares([row["count"] for row in drops])
    table = ReportTable(
        "Envelopes, notifications and attempts to push", ("stage", "decision", "count"), rows, 2, shares
    )
    return Section("Why the rest went no further", "Unmatched is how it should be: nobody had asked.", tables=[table])


def _why(decision: str, reason: str | None = None) -> str:
    words = decision.replace("_", " ")
    return f"{words}: {reason}" if reason else words


def _senders(tables: Tables) -> Section:
    rows = [
        [sender_name(row["sender"]), *(f"{row[name]:,}" for name in ("notifications", "receivers", "rate_limited"))]
        for row in tables["senders"]
    ]
    if not rows:
        return Section("Heaviest senders", "No notification has a sender.")
    table = ReportTable("By key or topic", ("sender", "notifications", "receivers", "held back"), rows)
    return Section("Heaviest senders", "And those that the limit held back most.", tables=[table])


def _rules(tables: Tables, period: Period) -> Section:
    counts = {row["hour"]: row["rules"] for row in tables["rules"]}
    if not any(counts.values()):
        return Section("Rules in force", "None.")
    series = [ChartSeries("rules", "c3", [counts.get(hour) for hour in full_hours(period)])]
    title = "Rules in force at each full hour"
    ends = int(0.95 * min(counts.values())), max(counts.values())
    plot = lines_by_hour(title, series, period, ends)
    return Section("Rules in force", plots=[plot], folded=[table_by_hour(title, series, period)])


def _cost(tables: Tables) -> Section:
    priced = [row for row in tables["cost"] if row["dollars"] > 0]
    total = sum(row["dollars"] for row in priced)
    delivered = sum(row["delivered"] for row in tables["notifications"])
    each = f", ${1_000_000 * total / delivered:,.2f} for a million delivered" if delivered else ""
    text = (
        f"${total:,.4f}{each}. By the ledger: tables, messages and events; not the Lambdas' time, nor what always runs."
    )
    rows = [[row["stage"], _why(row["decision"]), f"{row['count']:,}", f"${row['dollars']:,.4f}"] for row in priced]
    shares = _shares([row["dollars"] for row in priced])
    table = ReportTable("By decision", ("stage", "decision", "count", "dollars"), rows, 2, shares)
    return Section("Cost", text, tables=[table] if rows else ())


def _figures(found: Summary | None) -> list[str]:
    if not found:
        return ["no report", "-", "-", "-"]
    wanted, delivered = (found.reached[stage] for stage in ("wanted", "delivered"))
    differences = "not compared" if found.wrong is None else f"{sum(found.wrong.values()):,}"
    share = percent(delivered, wanted) if wanted else "-"
    return [f"{delivered:,} of {wanted:,}", share, differences, f"{found.incomplete} of {found.hours}"]


def _delivered_share(found: Summary | None) -> float | None:
    if not found or not found.reached["wanted"]:
        return None
    return 100 * found.reached["delivered"] / found.reached["wanted"]


def _shares(counts: Sequence[float]) -> list[float]:
    """Each as a share of the greatest."""
    most = max(counts, default=0) or 1
    return [count / most for count in counts]
