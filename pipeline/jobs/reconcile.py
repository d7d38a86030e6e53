"""`reconcile`: commit what differs, and count it by kind, beside what can't be judged and which hours are missing."""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from pipeline.columns import EventKind
from pipeline.compaction.completeness import IncompleteHour
from pipeline.findings import INCOMPLETE, UNJUDGED, UNREAD, Difference
from pipeline.jobs.shared import name_incomplete, strict
from pipeline.lake.commits import read_manifest
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.schemas import DIFFERENCE
from pipeline.lake.small_tables import read_tables
from pipeline.period import Period, arrivals, instant_text
from pipeline.reconciliation.claims import write_claims
from pipeline.reconciliation.reconcile import Findings, reconcile, size_of
from pipeline.reconciliation.verify import too_large
from pipeline.spark.session import small_lake_settings
from pipeline.terminal import log
from pipeline.terms import UNREAD_ENVELOPES, Terms, tables_of, terms_of


def run(lake: EventLake, options: argparse.Namespace) -> int:
    terms = terms_of(options)
    with small_lake_settings(lake.spark, size_of(lake.view, options.period, options.now, terms)):
        return _run(lake, options, terms)


def _run(lake: EventLake, options: argparse.Namespace, terms: Terms) -> int:
    incomplete = name_incomplete(lake, options)
    findings = reconcile(lake, options.period, options.now, terms)
    secret, large = _by_network(findings.unjudged), _unread(lake, options, findings)
    _commit(lake, options, findings, tables_of(terms, options.oversize, secret, large))
    counts = _counts(lake, options.period)
    # The frames that all these came from: none is needed any more.
    lake.spark.catalog.clearCache()
    log(f"{secret.total():>12,} {UNJUDGED}: their conditions are secret")
    log(f"written to {lake.path(differences_name(options.period))}")
    if large:
        log(
            f"{large.total():>12,} {UNREAD}: they are too large for a message, and not where --oversize says, if it does"
        )
    if incomplete:
        log("all of this is provisional: the lake has not all of the period")
    others = {UNJUDGED: secret.total(), UNREAD: large.total(), INCOMPLETE: len(incomplete)}
    _print(options.period, counts | others)
    return strictly(options, sum(counts.values()), large.total(), incomplete)


def strictly(options: argparse.Namespace, differences: int, large: int, incomplete: Sequence[IncompleteHour]) -> int:
    """How a strict run ends that has found so many differences, and did not read so many `large` envelopes."""
    flaws: dict[str, int | Sequence[IncompleteHour]] = {
        "differences": differences,
        "large envelopes were not read": large,
        "hours can't be judged": incomplete,
    }
    return strict(options, flaws)


def unread_earlier(lake: EventLake, period: Period) -> int:
    """How many large envelopes the last reconciliation of a period has not read."""
    found = read_manifest(lake.root, differences_name(period))
    tables = read_tables(lake.root, found, (UNREAD_ENVELOPES,)) if found else {}
    return sum(row["envelopes"] for table in tables.values() for row in table.to_pylist())


def _unread(lake: EventLake, options: argparse.Namespace, findings: Findings) -> Counter[str]:
    if lake.oversize:
        return _by_network(findings.unread)
    return _by_network(too_large(lake.read(EventKind.OBSERVED, arrivals(options.period, options.now)), options.period))


def _by_network(rows: DataFrame) -> Counter[str]:
    return Counter({row["network"]: row["count"] for row in rows.groupBy("network").count().collect()})


def _commit(lake: EventLake, options: argparse.Namespace, findings: Findings, beside: Mapping[str, pa.Table]) -> None:
    """Once it has its differences a day counts as judged: they come last."""
    write_claims(lake, options.period, findings.claims, options.now)
    arrived = lake.view.manifests(arrivals(options.period, options.now))
    seen = {found.hour: found.sealed_at for found in arrived}
    lake.write_named(differences_name(options.period), findings.differences, options.now, beside, seen)


def _counts(lake: EventLake, period: Period) -> dict[str, int]:
    found = lake.read_named(differences_name(period), DIFFERENCE).groupBy("difference").count().collect()
    counts = {row["difference"]: row["count"] for row in found}
    for difference in Difference:
        log(f"{counts.get(difference, 0):>12,} {difference}")
    return counts


def _print(period: Period, counts: dict[str, int]) -> None:
    named = {name: count for name, count in counts.items() if count}
    print(json.dumps({"from": instant_text(period.start), "to": instant_text(period.end)} | named))
