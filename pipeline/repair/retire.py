"""`retire`: subscriptions that are of no use to anybody any more, listed, and removed as the API removes them.

`dead`: they ended so long ago. `idle`: for so long they have matched nothing, neither a direct push nor a wake-up was for
them, and nobody touched them; those of networks that end them by themselves are never idle here.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import batched, groupby
from operator import itemgetter

from pynamodb.connection import Connection
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from clarion.cleanup import erase_dead
from clarion.decisions import Purpose, SubscriptionStatus
from clarion.event_log import EventLog
from clarion.networks import NETWORKS, network
from clarion.rulesets import Owner, Unchanged
from clarion.subscription_events import SubscriptionChanged
from clarion.subscriptions import remove
from clarion.tables import TRANSACTION_SUBSCRIPTIONS, Subscription
from pipeline.columns import REMOVED, EventKind
from pipeline.in_force.states import states_since
from pipeline.lake.dedup import latest_subscriptions
from pipeline.lake.event_lake import EventLake
from pipeline.period import DAY_MS, Period
from pipeline.spark.ending import JobStopped

SLACK_MS = 60_000
"""An event may be dated a little before or after the write that it records."""


DEAD, IDLE = "dead", "idle"
"""Why a subscription is of no use."""
_OF_USE = (Purpose.DIRECT, Purpose.WAKE_UP)
"""What is pushed to a subscription without a notification, as its server or its app has asked."""


class RetireStopped(JobStopped):
    """These are removed, but events that say so are lost: to the lake, they are in force."""

    def __init__(self, removed: Iterable[str]) -> None:
        super().__init__(f"events are lost of the removal of {', '.join(removed)}")


@dataclass(frozen=True)
class RetireAfter:
    """Days that a subscription may be dead, or idle.

    It is dead for at least one: so long a server may hand over what a device sealed before its token died, which only the
    row of its subscription shows to be outdated. With `idle` None no idle one is listed: the lake may not know of its use.
    """

    dead: int = 30
    idle: int | None = 180


def useless(lake: EventLake, now: int, after: RetireAfter) -> DataFrame:
    """What to retire, in the columns of its kind, with `why`, and `since` when it has been of no use."""
    states = states_since(lake, EventKind.SUBSCRIPTION, now, now)
    latest = latest_subscriptions(states).where(F.col("status") != REMOVED).drop("ruled_at")
    changes = states_since(lake, EventKind.RULES, now, now).select("subscription_id", F.col("at").alias("ruled_at"))
    every = changes.unionByName(states.select("subscription_id", "ruled_at"))
    ruled = every.groupBy("subscription_id").agg(F.max("ruled_at").alias("ruled_at"))
    idle_since = now - (after.idle or 0) * DAY_MS
    reached = _reached(lake, Period(idle_since, now))
    whole = latest.join(ruled, on="subscription_id", how="left").join(reached, on="subscription_id", how="left")
    used = F.greatest("at", "ruled_at", "reached_at")
    ended = F.col("status").isin(*(str(status) for status in SubscriptionStatus if not status.has_rules))
    dead = ended & (F.col("at") <= now - after.dead * DAY_MS)
    ends_idle = F.col("network").isin(*(name for name in NETWORKS if network(name).needs.ends_idle))
    idle = ~ended & ~ends_idle & (used <= idle_since) & F.lit(after.idle is not None)
    why = F.when(dead, F.lit(DEAD)).when(idle, F.lit(IDLE))
    since = F.when(dead, F.col("at")).otherwise(used)
    judged = whole.select(*latest.columns, why.alias("why"), since.alias("since"))
    return judged.where(F.col("why").isNotNull())


def _reached(lake: EventLake, period: Period) -> DataFrame:
    """`subscription_id, reached_at`: when something was last for it: a notification, a push by a server, or a wake-up."""
    pushed = lake.read(EventKind.PUSH, period).where(F.col("purpose").isin(*map(str, _OF_USE)))
    times = [kind.select("subscription_id", "at") for kind in (lake.read(EventKind.NOTIFICATION, period), pushed)]
    return times[0].unionByName(times[1]).groupBy("subscription_id").agg(F.max("at").alias("reached_at"))


def retire(
    retired: DataFrame, connection: Connection, events: EventLog, now: int, on_progress: Callable[[int], None]
) -> int:
    """Remove them, client by client; what has changed since the lake knew of it stays.

    Of one whose row is gone the lake knows no removal: whoever removed it was killed before it had emitted that, or
    DynamoDB has, since it was dead. So it is emitted now.

    Returns how many were removed; `on_progress` is called with that as it grows. Raises `RetireStopped` before more
    events are lost than those of one batch.
    """
    removed = 0
    rows = retired.orderBy("client_id").toLocalIterator()
    for client_id, of_client in groupby(rows, key=itemgetter("client_id")):
        for some in batched(of_client, TRANSACTION_SUBSCRIPTIONS, strict=False):
            known = {row["subscription_id"]: row for row in some}
            there = list(Subscription.batch_get(list(known), consistent_read=True))
            rows_removed = _remove_unchanged(connection, there, known, bytes(client_id))
            removed += len(rows_removed)
            gone = [_as_listed(known[name]) for name in sorted({*known} - {row.subscription_id for row in there})]
            ended = (*rows_removed, *gone)
            for row in ended:
                events.add(SubscriptionChanged.of_removed(row, now, "retired"))
            lost = events.flush()
            for row in ended:
                # It may have been made again under the same id meanwhile: then its new rules stay.
                erase_dead(connection, row.subscription_id, through=0)
            if lost:
                raise RetireStopped([row.subscription_id for row in ended])
        on_progress(removed)
    return removed


def _as_listed(row: Row) -> Subscription:
    """As its row was when the lake last knew of it."""
    names = ("subscription_id", "client_id", "network", "channel", "status", "status_reason", "generation", "revision")
    return Subscription(**{name: row[name] for name in names})


def _remove_unchanged(
    connection: Connection, rows: Iterable[Subscription], known: Mapping[str, Row], client_id: bytes
) -> list[Subscription]:
    same = [row for row in rows if _unchanged(row, known[row.subscription_id])]
    gone = list[Subscription]()
    for name in sorted({row.network for row in same}):
        ids = [row.subscription_id for row in same if row.network == name]
        removed = remove(connection, ids, Owner(name, client_id))
        gone += [] if isinstance(removed, Unchanged) else removed
    return gone


def _unchanged(row: Subscription, listed_row: Row) -> bool:
    return bool(row.status == listed_row["status"] and row.updated_at <= listed_row["since"] + SLACK_MS)
