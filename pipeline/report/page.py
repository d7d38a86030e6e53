"""The report as one page that needs nothing else: no script, no font, no address to load anything from.

What is wrong comes first. `page.html` lays out what the modules `summary`, `wrong` and `sections` make of the tables.
"""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeline.period import instant_text
from pipeline.report.about import About
from pipeline.report.layout import ReportTable, Section
from pipeline.report.sections import funnel, sections, week
from pipeline.report.summary import DayVerdict, Row, Summary, Tables, summarise
from pipeline.report.wrong import when, wrong

BADGES = {
    DayVerdict.WRONG: "Something went wrong",
    DayVerdict.NOT_COMPARED: "Not compared",
    DayVerdict.INCOMPLETE: "Not all is known",
    DayVerdict.UNREAD: "Not all is known",
    DayVerdict.PROVISIONAL: "Provisional",
    DayVerdict.EMPTY: "Empty",
    DayVerdict.HEALTHY: "Healthy",
}
_TEMPLATE = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    # Senders, topics, reasons and evidence come from strangers.
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
).get_template("page.html")


def page(tables: Tables, about: About, earlier: Sequence[tuple[int, Tables | None]] = ()) -> str:
    """`tables` are those of `report`, with `hours` and `limits`; `earlier` those of the days before, where there are any."""
    summary = summarise(tables)
    days = [*((start, summarise(found) if found else None) for start, found in earlier), (about.period.start, summary)]
    return _TEMPLATE.render(
        about=about,
        period=f"{instant_text(about.period.start)[:-3]} to {instant_text(about.period.end)[:-3]} UTC",
        badge=BADGES[summary.verdict],
        summary=summary,
        where=when(_leading(tables, summary)) if summary.verdict is DayVerdict.WRONG else "",
        wrong=wrong(tables, about) if summary.wrong else None,
        incomplete=[(row["hour"], row["problem"]) for row in tables["hours"] if row["problem"]],
        leading=[funnel(summary), week(days)],
        sections=[*sections(tables, about.period), _freshness(tables, about, summary)],
    )


def _leading(tables: Tables, summary: Summary) -> list[Row]:
    """The differences of the kind that the headline names."""
    kind = next(iter(summary.wrong or {}))
    return [row for row in tables["differences"] if row["difference"] == kind]


def _freshness(tables: Tables, about: About, summary: Summary) -> Section:
    facts = [
        ("lake", about.lake),
        ("stage", about.stage or "not named"),
        ("made", f"{instant_text(about.made)} UTC"),
        ("of what had arrived by", f"{instant_text(about.now)} UTC"),
        ("newest hour with anything", about.newest or "none in two days"),
        ("hours sealed", f"{summary.hours - summary.incomplete - summary.open} of {summary.hours}"),
        ("reconciled", "no" if summary.wrong is None else "yes"),
    ]
    hours = [[row["hour"], _state(row), _count(row["lines"]), _sealed(row["sealed_at"])] for row in tables["hours"]]
    return Section(
        "What this was made of",
        facts=facts,
        tables=[
            ReportTable("Limits in force", ("network", "since", "for a pair", "for a subscription"), _limits(tables), 4)
        ],
        folded=[ReportTable("Hours of arrival", ("hour, UTC", "state", "lines", "sealed at"), hours, 2)],
    )


def _state(hour: Row) -> str:
    return str(hour["problem"] or ("complete" if hour["sealed_at"] else "not over yet"))


def _count(lines: int | None) -> str:
    return "-" if lines is None else f"{lines:,}"


def _sealed(at: int | None) -> str:
    """Month and day, hour and minute."""
    return instant_text(at)[5:-3] if at else "-"


def _limits(tables: Tables) -> list[list[str]]:
    return [
        [row["network"], instant_text(row["since"])[:-3] if row["since"] else "always", row["pair"], row["cap"]]
        for row in tables["limits"]
    ]
