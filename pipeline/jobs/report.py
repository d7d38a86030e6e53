"""`report`: commit the tables of a period, and write the page that is made of them."""

import argparse
from pathlib import Path

from clarion.clock import now_ms
from pipeline.in_force.states import limit_history
from pipeline.jobs.shared import strict
from pipeline.lake.commits import read_manifest
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.files import write_text
from pipeline.reconciliation.reconcile import size_of
from pipeline.report import inputs
from pipeline.report.about import About
from pipeline.report.page import page
from pipeline.report.report_files import earlier, page_path, report_name, write_page, write_tables
from pipeline.report.summary import Tables
from pipeline.report.tables import report_tables
from pipeline.spark.session import small_lake_settings
from pipeline.terminal import log
from pipeline.terms import judged_by, terms_of


def run(lake: EventLake, options: argparse.Namespace) -> int:
    with small_lake_settings(lake.spark, size_of(lake.view, options.period, options.now, terms_of(options))):
        return _run(lake, options)


def _run(lake: EventLake, options: argparse.Namespace) -> int:
    # What is judged anew from here on needs a page of its own.
    judged = read_manifest(lake.root, differences_name(options.period))
    tables = report_tables(lake, options.period, options.now)
    provisional = options.provisional
    tables["hours"] = inputs.hours(lake.view, options.period, options.now, provisional=provisional, judged=judged)
    tables["limits"] = inputs.limits(limit_history(lake.view, options.period.start, options.now), options.period)
    made = write_tables(lake.root, options.period, tables)
    rows = {name: table.to_pylist() for name, table in tables.items()}
    html = page(rows, _about(lake, options, rows), list(earlier(lake.root, options.period)))
    write_page(lake.root, options.period, made, html, judged)
    if options.page:
        write_text(options.page, html)
    log(f"tables in {lake.path(report_name(options.period))}")
    log(f"page   in {options.page or lake.path(page_path(options.period))}")
    return strict(
        options,
        {"hours can't be judged": [f"{row['hour']}: {row['problem']}" for row in rows["hours"] if row["problem"]]},
    )


def _about(lake: EventLake, options: argparse.Namespace, tables: Tables) -> About:
    terms, oversize = judged_by(tables)
    return About(
        period=options.period,
        lake=options.lake if "://" in options.lake else str(Path(options.lake).absolute()),
        now=options.now,
        made=now_ms(),
        stage=options.stage,
        oversize=options.oversize or oversize,
        newest=inputs.newest(lake.view, options.now),
        terms=terms,
    )
