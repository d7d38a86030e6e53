"""`report`: commit the tables of a period, and write the page that is made of them."""

import argparse
from pathlib import Path

from clarion.clock import now_ms
from pipeline.in_force.states import limit_history
from pipeline.jobs.shared import strict
from pipeline.lake.commits import read_manifest
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.files import write_text
from pipeline.report import inputs
from pipeline.report.about import About
from pipeline.report.page import page
from pipeline.report.report import report
from pipeline.report.report_files import earlier, page_path, report_name, write_page, write_tables
from pipeline.report.summary import Tables
from pipeline.terminal import log
from pipeline.terms import judged_by


def run(lake: EventLake, wanted: argparse.Namespace) -> int:
    # What is judged anew from here on needs a page of its own.
    judged = read_manifest(lake.root, differences_name(wanted.period))
    tables = report(lake, wanted.period, wanted.now)
    provisional = wanted.provisional
    tables["hours"] = inputs.hours(lake.view, wanted.period, wanted.now, provisional=provisional, judged=judged)
    tables["limits"] = inputs.limits(limit_history(lake.view, wanted.period.start, wanted.now), wanted.period)
    made = write_tables(lake.root, wanted.period, tables)
    rows = {name: table.to_pylist() for name, table in tables.items()}
    html = page(rows, _about(lake, wanted, rows), list(earlier(lake.root, wanted.period)))
    if wanted.page:
        write_text(wanted.page, html)
    else:
        write_page(lake.root, wanted.period, made, html, judged)
    log(f"tables in {lake.path(report_name(wanted.period))}")
    log(f"page   in {wanted.page or lake.path(page_path(wanted.period))}")
    return strict(
        wanted,
        {"hours can't be judged": [f"{row['hour']}: {row['problem']}" for row in rows["hours"] if row["problem"]]},
    )


def _about(lake: EventLake, wanted: argparse.Namespace, tables: Tables) -> About:
    terms, oversize = judged_by(tables)
    return About(
        period=wanted.period,
        lake=wanted.lake if "://" in wanted.lake else str(Path(wanted.lake).absolute()),
        now=wanted.now,
        made=now_ms(),
        stage=wanted.stage,
        oversize=wanted.oversize or oversize,
        newest=inputs.newest(lake.view, wanted.now),
        terms=terms,
    )
