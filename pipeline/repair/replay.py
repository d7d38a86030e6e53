"""`replay`: send to the live system again what it has lost, each thing with its own receipt.

    differences ──▶ plan, written to the lake ─┬─▶ envelopes queue    nothing of the envelope was queued: decide anew
                    (without what earlier      │                      some was, and a secret decides: for one alone
                     plans have)               └─▶ push queues        some was: only what is missing is pushed

What a plan names is never planned again, so running twice sends nothing twice. A run that was stopped is finished by
the next one, from its last checkpoint on: at most one batch of ten goes out again, under the same receipts, which the
live system knows.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clarion import sqs
from clarion.channels import Channel
from clarion.decisions import NotificationDecision, Wanted
from clarion.messages import EnvelopeMessage, PushMessage, Recipient, RemainderMessage
from clarion.networks import network
from clarion.sqs import SqsMessage
from pipeline.columns import NOTIFICATION_KEY, EventKind
from pipeline.findings import REPAIRABLE
from pipeline.lake.commits import Manifest, commit, new_commit
from pipeline.lake.event_lake import EventLake, named
from pipeline.lake.files import joined, read_text, write_text
from pipeline.lake.plans import CHECKPOINTS, REPLAYS, next_run, run_name, run_of, runs_since
from pipeline.lake.schemas import PLAN, in_spark
from pipeline.lake.snapshots import CLAIMED_BACK_MS
from pipeline.period import Period, arrivals
from pipeline.reconciliation.verify import fetched
from pipeline.spark.ending import JobStopped

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

ENVELOPES = "envelopes"
"""The route of an envelope; that of a push is its channel."""
BATCH = sqs.ENTRIES
_DONE = "done"
_BUILT = pa.schema([(name, pa.string()) for name in (*NOTIFICATION_KEY, "route", "message")])


class ReplayStopped(JobStopped):
    """SQS refused some of a batch; the next run goes on with this batch."""


@dataclass(frozen=True)
class Planned:
    """`expired` are too old to be of use to anybody, or gone; `known` are in an earlier plan."""

    run: str
    notifications: int
    messages: int
    expired: int
    known: int


def plan(lake: EventLake, differences: DataFrame, period: Period, now: int, *, dry_run: bool) -> Planned:
    """Work out what to send again and, unless it is a dry run, commit it as the plan of a new run.

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
    observed = lake.read(EventKind.OBSERVED, since).select("receipt", "network", "observed_at", "raw", "location")
    envelopes = observed.join(new, on="receipt", how="leftsemi").dropDuplicates(["receipt"])
    queued = lake.read(EventKind.NOTIFICATION, since).where(F.col("decision") == NotificationDecision.QUEUED)
    begun = queued.select("receipt", F.lit(True).alias("begun")).distinct()
    whole = new.drop("network").join(envelopes, on="receipt", how="inner").join(begun, on="receipt", how="left")
    first = F.row_number().over(Window.partitionBy("receipt").orderBy("subscription_id")) == 1
    rows = whole.select(
        *NOTIFICATION_KEY, *_CARRIED, "network", "raw", "location", "observed_at",
        F.coalesce("begun", F.lit(False)).alias("begun"), first.alias("first"), F.lit(now).alias("now"),
    ).mapInArrow(partial(_build_batches, oversize=lake.oversize), in_spark(_BUILT))  # fmt: skip
    ordered = rows.orderBy(*NOTIFICATION_KEY).withColumn("place", F.monotonically_increasing_id())
    planned = ordered.select(*PLAN.names).persist()
    counts = planned.agg(
        F.count("subscription_id"), F.count("message"), F.count(F.when(F.col("route") == "", 1))
    ).first()
    notifications, messages, expired = counts or (0, 0, 0)
    if not dry_run:
        files = lake.write_files(REPLAYS, named(run_name(run), planned.where(F.col("route") != "")))
        commit(lake.root, Manifest(run_name(run), new_commit(), sealed_at=now, kinds=files), None)
    known = lost.count() - new.count()
    return Planned(run, notifications - expired, messages, expired, known)


_CARRIED = ("client_id", "key", "channel", "wanted")


def _build_batches(batches: Iterable[pa.RecordBatch], oversize: str | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.to_pylist()
        raws = fetched(oversize, (row["raw"] for row in rows), (row["location"] for row in rows))
        built = [each for row, raw in zip(rows, raws, strict=True) for each in _built(row, raw)]
        yield pa.RecordBatch.from_pylist(built, schema=_BUILT)


def _built(row: Mapping[str, Any], raw: bytes | None) -> list[dict[str, object]]:
    """A row of the plan; what has expired, or is gone, has no route. With the first of an envelope, that of its message."""
    who = {name: row[name] for name in NOTIFICATION_KEY}
    nowhere = who | {"route": "", "message": None}
    if raw is None:
        return [nowhere]
    envelope = network(row["network"]).decode(raw)
    if envelope.expires_at * 1000 <= row["now"]:
        return [nowhere]
    # As ingest sent it: what was too large for a message still is.
    place = {"raw": raw} if row["location"] is None else {"location": row["location"]}
    message = EnvelopeMessage(
        network=row["network"], receipt=UUID(row["receipt"]), observed_at=row["observed_at"], **place
    )
    if not row["begun"]:
        shared = {"receipt": row["receipt"], "subscription_id": None, "route": ENVELOPES, "message": message.to_json()}
        return [*([shared] if row["first"] else []), who | {"route": ENVELOPES, "message": None}]
    if row["wanted"] is None:
        # Only match can read a secret condition: whether it is wanted, and how.
        alone = RemainderMessage(**message.observation, subscription_ids=(row["subscription_id"],))
        return [who | {"route": ENVELOPES, "message": alone.to_json()}]
    recipient = Recipient(UUID(row["subscription_id"]), row["client_id"], Channel(row["channel"]))
    push = PushMessage.of(message, envelope, row["key"], Wanted(row["wanted"]), recipient)
    return [who | {"route": str(push.channel), "message": push.to_json()}]


def send(  # noqa: PLR0913 - each by name
    lake: EventLake,
    client: "SQSClient",
    queues: Mapping[str, str],
    *,
    now: int,
    per_second: float,
    report: Callable[[int], None],
) -> int:
    """Send what is planned and not yet sent; returns how many messages went out, `report`ed as they grow.

    `queues` are URLs by route; what has another route is for a channel that is no longer deployed, and left out.
    """
    sent = 0
    for planned in unfinished(lake.root, now):
        run = run_of(planned)
        for batch in batched(_messages(lake, planned, list(queues)), BATCH, strict=False):
            begun = time.monotonic()
            _send_batch(client, [(queues[route], SqsMessage(message)) for _, route, message in batch])
            _mark(lake.root, run, str(batch[-1][0]))
            sent += len(batch)
            report(sent)
            time.sleep(max(0.0, len(batch) / per_second - (time.monotonic() - begun)))
        _mark(lake.root, run, _DONE)
    return sent


def unfinished(root: str, now: int) -> list[Manifest]:
    """But for those of so long ago that match may know none of the claims any more: it would push all of it again."""
    return [run for run in runs_since(root, now - CLAIMED_BACK_MS) if _checkpoint(root, run_of(run)) != _DONE]


def _messages(lake: EventLake, run: Manifest, routes: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """`place, route, message`, in order, a partition at a time."""
    mark = _checkpoint(lake.root, run_of(run))
    there: Column = F.col("message").isNotNull() & F.col("route").isin(*routes)
    rest = lake.read_commit(run, PLAN).where(there if mark is None else there & (F.col("place") > int(mark)))
    for row in rest.select("place", "route", "message").orderBy("place").toLocalIterator():
        yield row["place"], row["route"], row["message"]


def _send_batch(client: "SQSClient", messages: Sequence[tuple[str, SqsMessage]]) -> None:
    refused = [reason for reason in sqs.send_to_queues(client, messages) if reason]
    if refused:
        raise ReplayStopped(f"SQS refused {len(refused)} of {len(messages)}: {refused[0]}")


def _checkpoint(root: str, run: str) -> str | None:
    return read_text(joined(root, f"{CHECKPOINTS}/{run}"))


def _mark(root: str, run: str, mark: str) -> None:
    write_text(joined(root, f"{CHECKPOINTS}/{run}"), mark)
