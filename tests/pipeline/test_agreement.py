"""What Spark's jobs and those without it have in common: verdicts, and the lake that they write to."""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.clock import now_ms
from clarion.events import EnvelopeDecided, EnvelopeObserved, NotificationDecided, PushTried
from pipeline.columns import EventKind
from pipeline.compaction.compact import compact
from pipeline.erase.run import erase
from pipeline.explain.evidence import LostSoFar
from pipeline.explain.in_force import rule_spans
from pipeline.explain.known import Known
from pipeline.explain.request import gather, judge_all
from pipeline.explain.trail import Trail, observations
from pipeline.generator.plan import Plan
from pipeline.lake.event_lake import EventLake
from pipeline.lake.lookup import Lookup
from pipeline.lake.raw import RAW
from pipeline.period import DAY_MS, Period
from pipeline.terms import Terms
from tests.pipeline.conftest import NOW, copied

EVER = Period(0, NOW)


def test_a_made_up_day_can_be_explained_before_it_is_compacted(day: EventLake, tmp_path: Path) -> None:
    of_stream = Lookup(str(tmp_path))
    (tmp_path / RAW).symlink_to(Path(day.root) / RAW)
    observed = set(Lookup(day.root).receipts(EnvelopeObserved, EVER))
    assert set(of_stream.receipts(EnvelopeObserved, EVER)) == observed
    assert len(observed) > 1_000
    assert not of_stream.unreadable


def test_explain_judges_each_notification_of_a_day_as_reconcile_does(
    day: EventLake, plan: Plan, differences: DataFrame
) -> None:
    lookup = Lookup(day.root)
    observed, decided = lookup.every(EnvelopeObserved, EVER), lookup.every(EnvelopeDecided, EVER)
    trail = Trail(EVER, observed, decided, lookup.every(NotificationDecided, EVER), lookup.every(PushTried, EVER))
    seen = [one for one in observations(trail, None) if plan.start <= one.observed_at < plan.period.end]
    known = Known(lookup, plan.start, NOW)
    rules = known.rules_naming({key for one in seen if one.envelope for key in one.envelope.keys})
    owners = {one.subscription_id for kind in (rules, trail.notified) for one in kind}
    subscriptions = known.subscriptions(owners)
    evidence = gather(known, seen, trail, rule_spans(rules, subscriptions), trail.notified)
    lost = LostSoFar()
    judged = {
        (str(one.observation.receipt), str(one.subscription_id)): verdict
        for each in seen
        for one, verdict in judge_all(each, evidence, Terms(), lost)
    }
    explained = {who: verdict.found for who, verdict in judged.items() if verdict.is_difference}
    rows = differences.where(F.col("subscription_id").isNotNull()).collect()
    assert explained == {(row["receipt"], row["subscription_id"]): row["difference"] for row in rows}
    assert set(explained.values()) == {"missing", "wrongly_dropped", "unexpected", "late"}


def test_what_was_erased_is_in_none_of_sparks_tables_and_no_compaction_brings_it_back(
    day: EventLake, tmp_path: Path
) -> None:
    lake = copied(day, tmp_path)
    busiest = lake.read(EventKind.NOTIFICATION).groupBy("client_id").count().orderBy(F.desc("count")).first()
    assert busiest
    before = lake.read(EventKind.NOTIFICATION).count()
    erased = erase(lake.root, bytes(busiest["client_id"]), dry_run=False, on_progress=lambda _: None)
    assert erased.removed["notification"] == busiest["count"]
    lake.view.refresh()
    assert compact(lake, Period(NOW - 4 * DAY_MS, NOW), now_ms()).lines == {}
    left = lake.read(EventKind.NOTIFICATION)
    assert left.where(F.col("client_id") == F.lit(bytes(busiest["client_id"]))).count() == 0
    assert left.count() == before - busiest["count"]
