"""What the page lays out: sections of facts, charts and tables; and the charts and tables of what goes by the hour.

What is text here is not escaped yet: the template does that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.report import charts
from pipeline.report.charts import ChartSeries
from pipeline.report.summary import Row


@dataclass(frozen=True)
class ReportTable:
    """The first `words` columns are words, the others numbers. `shares`, from 0 to 1, are drawn as a bar in each row."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    shares: Sequence[float] = ()


@dataclass(frozen=True)
class Plot:
    """A chart with its legend, the colours by name."""

    title: str
    legend: Mapping[str, str]
    svg: Markup


@dataclass(frozen=True)
class Section:
    """`folded` are tables that can be opened: long ones, and what the plots show. `text` says if there is nothing."""

    title: str
    text: str = ""
    facts: Sequence[tuple[str, str]] = ()
    plots: Sequence[Plot] = ()
    tables: Sequence[ReportTable] = ()
    folded: Sequence[ReportTable] = ()


def bars_by_hour(title: str, series: Sequence[ChartSeries], period: Period) -> Plot:
    """What there is in each hour of the period, stacked."""
    hours = full_hours(period)
    return _plot(title, series, charts.bars(title, _axis(hours), _labels(hours), series))


def series_by_hour(
    rows: Sequence[Row], name: str, value: str, colours: Mapping[str, str], period: Period
) -> list[ChartSeries]:
    """The sum of `value` in each hour, a series for each of what `name` is, if it is in `colours`."""
    counts = Counter[tuple[str, int]]()
    for row in rows:
        counts[row[name], row["hour"]] += row[value]
    found = {each for each, _ in counts}
    return [
        ChartSeries(each, colour, [counts[each, hour] for hour in full_hours(period)])
        for each, colour in colours.items()
        if each in found
    ]


def lines_by_hour(title: str, series: Sequence[ChartSeries], period: Period, ends: tuple[float, float]) -> Plot:
    hours = full_hours(period)
    return _plot(title, series, charts.lines(title, _axis(hours), _labels(hours), series, ends))


def table_by_hour(title: str, series: Sequence[ChartSeries], period: Period) -> ReportTable:
    columns = ([f"{value:,.0f}" if value is not None else "-" for value in one.values] for one in series)
    hours = (f"{utc(hour):%m-%d %H:%M}" for hour in full_hours(period))
    return ReportTable(title, ("hour, UTC", *(one.name for one in series)), list(zip(hours, *columns, strict=True)))


def full_hours(period: Period) -> list[int]:
    return list(range(period.start - period.start % HOUR_MS, period.end, HOUR_MS))


def _plot(title: str, series: Sequence[ChartSeries], svg: Markup) -> Plot:
    return Plot(title, {one.name: one.colour for one in series} if len(series) > 1 else {}, svg)


def _axis(hours: Sequence[int]) -> str:
    return "hour, UTC" if _in_a_day(hours) else "day and hour, UTC"


def _labels(hours: Sequence[int]) -> list[str]:
    pattern = "%H:%M" if _in_a_day(hours) else "%d. %Hh"
    return [utc(hour).strftime(pattern) for hour in hours]


def _in_a_day(hours: Sequence[int]) -> bool:
    return hours[-1] - hours[0] < DAY_MS


def utc(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC)
