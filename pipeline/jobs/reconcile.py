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
from pipeline.reconciliation.verify import unread
from pipeline.spark.session import fitted
from pipeline.terminal import log
from pipeline.terms import LARGE, Terms, tables_of, terms_of


def run(lake: EventLake, wanted: argparse.Namespace) -> int:
    terms = terms_of(wanted)
    with fitted(lake.spark, size_of(lake.view, wanted.period, wanted.now, terms)):
        return _run(lake, wanted, terms)


def _run(lake: EventLake, wanted: argparse.Namespace, terms: Terms) -> int:
    incomplete = name_incomplete(lake, wanted)
    findings = reconcile(lake, wanted.period, wanted.now, terms)
    secret, large = _by_network(findings.unjudged), _unread(lake, wanted, findings)
    _commit(lake, wanted, findings, tables_of(terms, wanted.oversize, secret, large))
    counts = _counts(lake, wanted.period)
    # The frames that all these came from: none is needed any more.
    lake.spark.catalog.clearCache()
    log(f"{secret.total():>12,} {UNJUDGED}: their conditions are secret")
    log(f"written to {lake.path(differences_name(wanted.period))}")
    if large:
        log(
            f"{large.total():>12,} {UNREAD}: they are too large for a message, and not where --oversize says, if it does"
        )
    if incomplete:
        log("all of this is provisional: the lake has not all of the period")
    others = {UNJUDGED: secret.total(), UNREAD: large.total(), INCOMPLETE: len(incomplete)}
    _print(wanted.period, counts | others)
    return strictly(wanted, sum(counts.values()), large.total(), incomplete)


def strictly(wanted: argparse.Namespace, differences: int, large: int, incomplete: Sequence[IncompleteHour]) -> int:
    """How a strict run ends that has found so many differences, and did not read so many `large` envelopes."""
    flaws: dict[str, int | Sequence[IncompleteHour]] = {
        "differences": differences,
        "large envelopes were not read": large,
        "hours can't be judged": incomplete,
    }
    return strict(wanted, flaws)


def unread_then(lake: EventLake, period: Period) -> int:
    """How many large envelopes the last reconciliation of a period has not read."""
    found = read_manifest(lake.root, differences_name(period))
    tables = read_tables(lake.root, found, (LARGE,)) if found else {}
    return sum(row["envelopes"] for table in tables.values() for row in table.to_pylist())


def _unread(lake: EventLake, wanted: argparse.Namespace, findings: Findings) -> Counter[str]:
    if lake.oversize:
        return _by_network(findings.unread)
    return _by_network(unread(lake.read(EventKind.OBSERVED, arrivals(wanted.period, wanted.now)), wanted.period))


def _by_network(rows: DataFrame) -> Counter[str]:
    return Counter({row["network"]: row["count"] for row in rows.groupBy("network").count().collect()})


def _commit(lake: EventLake, wanted: argparse.Namespace, findings: Findings, beside: Mapping[str, pa.Table]) -> None:
    """Once it has its differences a day counts as judged: they come last."""
    write_claims(lake, wanted.period, findings.claims, wanted.now)
    arrived = lake.view.manifests(arrivals(wanted.period, wanted.now))
    seen = {found.hour: found.sealed_at for found in arrived}
    lake.write_named(differences_name(wanted.period), findings.differences, wanted.now, beside, seen)


def _counts(lake: EventLake, period: Period) -> dict[str, int]:
    found = lake.read_named(differences_name(period), DIFFERENCE).groupBy("difference").count().collect()
    counts = {row["difference"]: row["count"] for row in found}
    for difference in Difference:
        log(f"{counts.get(difference, 0):>12,} {difference}")
    return counts


def _print(period: Period, counts: dict[str, int]) -> None:
    named = {name: count for name, count in counts.items() if count}
    print(json.dumps({"from": instant_text(period.start), "to": instant_text(period.end)} | named))
