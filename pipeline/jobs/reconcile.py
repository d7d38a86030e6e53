"""`reconcile`: commit what differs, and count it by kind, beside what can't be judged and which hours are missing."""

import argparse
import json
from collections import Counter

from pipeline.findings import INCOMPLETE, UNJUDGED, Difference
from pipeline.jobs.shared import log, name_incomplete, reconciled, strict, terms_of
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.schemas import DIFFERENCE
from pipeline.period import Period, arrivals, instant_text
from pipeline.reconciliation.claims import write_claims
from pipeline.reconciliation.reconcile import Findings, size_of
from pipeline.spark.session import fitted
from pipeline.terms import tables_of


def run(lake: EventLake, wanted: argparse.Namespace) -> int:
    with fitted(lake.spark, size_of(lake.view, wanted.period, wanted.now, terms_of(wanted))):
        return _run(lake, wanted)


def _run(lake: EventLake, wanted: argparse.Namespace) -> int:
    incomplete = name_incomplete(lake, wanted)
    findings = reconciled(lake, wanted)
    secret = Counter({row["network"]: row["count"] for row in findings.unjudged.groupBy("network").count().collect()})
    _commit(lake, wanted, findings, secret)
    counts = _counts(lake, wanted.period)
    # The frames that all these came from: none is needed any more.
    lake.spark.catalog.clearCache()
    log(f"{secret.total():>12,} {UNJUDGED}: their conditions are secret")
    log(f"written to {lake.path(differences_name(wanted.period))}")
    if incomplete:
        log("all of this is provisional: the lake has not all of the period")
    _print(wanted.period, counts | {UNJUDGED: secret.total(), INCOMPLETE: len(incomplete)})
    return strict(wanted, {"differences": sum(counts.values()), "hours can't be judged": incomplete})


def _commit(lake: EventLake, wanted: argparse.Namespace, findings: Findings, secret: Counter[str]) -> None:
    """Once it has its differences a day counts as judged: they come last."""
    write_claims(lake, wanted.period, findings.claims, wanted.now)
    arrived = lake.view.manifests(arrivals(wanted.period, wanted.now))
    beside = tables_of(terms_of(wanted), wanted.oversize, secret)
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
