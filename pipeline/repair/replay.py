"""`replay`: send to the live system again what it has lost, each thing with its own receipt.

    differences ──▶ plan, written to the lake ──▶ envelopes queue ──▶ match decides anew, by the rules of now
                    (without what earlier         for the subscription alone
                     plans have)                  that a message names

What a plan names is never planned again, and one process at a time sends a run: so running twice, even at once, sends
nothing twice. A run that was stopped is finished by the next one, from its last checkpoint on, without what has come to
an end since: at most one batch of ten goes out again, under the same receipts, which the live system knows.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import batched, chain, islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion import sqs
from clarion.messages import RemainderMessage
from clarion.networks import network
from clarion.sqs import SqsMessage
from pipeline.columns import NOTIFICATION_KEY, EventKind
from pipeline.findings import REPAIRABLE
from pipeline.lake.commits import Manifest, commit, new_commit
from pipeline.lake.event_lake import EventLake, with_home
from pipeline.lake.plans import REPLAYS, RunLease, next_run, progress, run_name, run_of, runs_since
from pipeline.lake.schemas import PLAN, in_spark
from pipeline.lake.snapshots import CLAIM_LOOKBACK_MS
from pipeline.period import Period, arrivals
from pipeline.reconciliation.compare import outcomes, waits
from pipeline.reconciliation.verify import fetched
from pipeline.spark.ending import JobStopped

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

BATCH = sqs.ENTRIES
_BUILT = pa.schema([(name, pa.string()) for name in (*NOTIFICATION_KEY, "message")])


class ReplayStopped(JobStopped):
    """SQS refused some of a batch; the next run goes on with this batch."""


@dataclass(frozen=True)
class Planned:
    """`expired` are too old to be of use to anybody, or gone; `known` are in an earlier plan.

    What is `waiting` is left to dispatch, which has it still and tries it again.
    """

    run: str
    messages: int
    expired: int
    known: int
    waiting: int


@dataclass(frozen=True)
class Unsent:
    """What has not been sent of a run: `messages`, in `PLAN`.

    `since` is when the earliest of its envelopes was observed, in UNIX milliseconds; None if nothing is left.
    """

    run: Manifest
    since: int | None
    messages: DataFrame


@dataclass(frozen=True)
class Sent:
    """How many messages went out, and the runs that are `left` to another process, which is sending them."""

    messages: int
    left: Sequence[str]


def plan(  # noqa: PLR0913 - each by name
    lake: EventLake, differences: DataFrame, period: Period, now: int, *, dry_run: bool, queues_lost: bool = False
) -> Planned:
    """Work out what to send again and, unless it is a dry run, commit it as the plan of a new run.

    With `queues_lost`, nothing waits: the queues that it would wait in are gone.
    Raises `CommitConflict` if another run has planned meanwhile: it may have planned the same.
    """
    run = next_run(lake.root)
    repairable = F.col("difference").isin(*(str(one) for one in REPAIRABLE))
    # Without the reconciliation behind it, which every step below would plan and describe once more.
    lost = differences.where(repairable & F.col("subscription_id").isNotNull()).localCheckpoint()
    new = lost.join(
        lake.plans(period.start).select(*NOTIFICATION_KEY), on=list(NOTIFICATION_KEY), how="leftanti"
    ).persist()
    since = arrivals(period, now)
    tried = lake.read(EventKind.PUSH, since).join(
        new.select(*NOTIFICATION_KEY), on=list(NOTIFICATION_KEY), how="leftsemi"
    )
    waiting = outcomes(tried).where(waits(now) & F.lit(not queues_lost)).select(*NOTIFICATION_KEY)
    due = new.join(waiting, on=list(NOTIFICATION_KEY), how="leftanti").persist()
    observed = lake.read(EventKind.OBSERVED, since)
    facts = observed.select("receipt", "network", "observed_at", "raw", "location")
    envelopes = facts.join(due, on="receipt", how="leftsemi").dropDuplicates(["receipt"])
    rows = (
        due.select(*NOTIFICATION_KEY)
        .join(envelopes, on="receipt", how="inner")
        .withColumn("now", F.lit(now))
        .mapInArrow(partial(_build_batches, oversize=lake.oversize), in_spark(_BUILT))
    )
    ordered = rows.orderBy("receipt", "subscription_id").withColumn("place", F.monotonically_increasing_id())
    planned = ordered.select(*PLAN.names).persist()
    every, messages = planned.agg(F.count("*"), F.count("message")).first() or (0, 0)
    if not dry_run:
        files = lake.write_files(REPLAYS, with_home(run_name(run), planned.where(F.col("message").isNotNull())))
        commit(lake.root, Manifest(run_name(run), new_commit(), sealed_at=now, kinds=files), None)
    unplanned, ready = new.count(), due.count()
    return Planned(run, messages, every - messages, lost.count() - unplanned, unplanned - ready)


def _build_batches(batches: Iterable[pa.RecordBatch], oversize: str | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.to_pylist()
        raws = fetched(oversize, (row["raw"] for row in rows), (row["location"] for row in rows))
        built = [
            {name: row[name] for name in NOTIFICATION_KEY} | {"message": _message(row, raw)}
            for row, raw in zip(rows, raws, strict=True)
        ]
        yield pa.RecordBatch.from_pylist(built, schema=_BUILT)


def _message(row: Mapping[str, Any], raw: bytes | None) -> str | None:
    """For one subscription; None of what has expired, or is gone."""
    if raw is None or network(row["network"]).decode(raw).expires_at * 1000 <= row["now"]:
        return None
    # As ingest sent it: what was too large for a message still is.
    place = {"raw": raw} if row["location"] is None else {"location": row["location"]}
    return RemainderMessage(
        network=row["network"],
        receipt=UUID(row["receipt"]),
        observed_at=row["observed_at"],
        subscription_ids=(row["subscription_id"],),
        **place,
    ).to_json()


def send(  # noqa: PLR0913 - each by name
    lake: EventLake,
    client: "SQSClient",
    queue_url: str,
    runs: Iterable[Unsent],
    *,
    per_second: float,
    on_progress: Callable[[int], None],
) -> Sent:
    """Send what no other process is sending of each run, in turn; tell `on_progress` the number as it grows."""
    sent, left = 0, list[str]()
    for each in runs:
        run = run_of(each.run)
        lease = RunLease(lake.root, run, pause_ms=round(1_000 * BATCH / per_second))
        # Sorted before the lease is taken: that may take longer than the lease lasts.
        messages = _in_order(each.messages)
        if (place := lease.take()) is None:
            # One that another process has finished meanwhile is left to nobody.
            left += [] if progress(lake.root, run).done else [run]
            continue
        try:
            for batch in batched(((at, text) for at, text in messages if at > place), BATCH, strict=False):
                begun = time.monotonic()
                _send_batch(client, queue_url, [message for _, message in batch])
                sent += len(batch)
                if not lease.advance(batch[-1][0]):
                    left.append(run)
                    break
                on_progress(sent)
                time.sleep(max(0.0, len(batch) / per_second - (time.monotonic() - begun)))
            else:
                lease.finish()
        finally:
            lease.release()
    return Sent(sent, left)


def unfinished(root: str, now: int) -> list[Manifest]:
    """But for those of so long ago that match may know none of the claims any more: it would push all of it again."""
    return [run for run in runs_since(root, now - CLAIM_LOOKBACK_MS) if not progress(root, run_of(run)).done]


def still_to_send(lake: EventLake, run: Manifest, now: int) -> Unsent:
    """What of a stopped run has not been sent, without what has an ended push by now (see `outcomes`).

    What dispatch is retrying is left in: a run is never planned again, so what it leaves out is never sent.
    """
    found = all_unsent(lake, run)
    if found.since is None:
        return found
    pushed = lake.read(EventKind.PUSH, arrivals(Period(found.since, now), now)).join(
        found.messages.select(*NOTIFICATION_KEY), on=list(NOTIFICATION_KEY), how="leftsemi"
    )
    ended = outcomes(pushed).where("ended").select(*NOTIFICATION_KEY).localCheckpoint()
    return _with_first_observation(run, found.messages.join(ended, on=list(NOTIFICATION_KEY), how="leftanti"))


def all_unsent(lake: EventLake, run: Manifest) -> Unsent:
    """What of a run has not been sent, whether its pushes have ended or not."""
    place = progress(lake.root, run_of(run)).sent
    return _with_first_observation(run, lake.read_commit(run, PLAN).where(F.col("place") > place))


def _with_first_observation(run: Manifest, messages: DataFrame) -> Unsent:
    observed_at = F.get_json_object("message", "$.observed_at").cast("long")
    return Unsent(run, messages.agg(F.min(observed_at)).collect()[0][0], messages)


def _in_order(messages: DataFrame) -> Iterator[tuple[int, str]]:
    """`place, message` in order, a partition at a time. The first row is read, so all is sorted, before this returns."""
    ordered = messages.select("place", "message").orderBy("place").toLocalIterator()
    rows = ((row["place"], row["message"]) for row in ordered)
    return chain(list(islice(rows, 1)), rows)


def _send_batch(client: "SQSClient", queue_url: str, messages: Sequence[str]) -> None:
    refused = [reason for reason in sqs.send(client, queue_url, list(map(SqsMessage, messages))) if reason]
    if refused:
        raise ReplayStopped(f"SQS refused {len(refused)} of {len(messages)}: {refused[0]}")
