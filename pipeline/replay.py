"""`replay`: hand back to the live system what it has lost, each thing with its own receipt.

    differences ──▶ plan, written to the lake ──▶ statements queue    nothing of the statement was queued: decide anew
                    (without what earlier       └▶ push queues        some was: only what is missing is pushed
                     plans have)

What a plan names is never planned again, so running twice sends nothing twice. A run that was stopped is finished by
the next one, from its last checkpoint on: at most one batch of ten goes out again, under the same receipts, which the
live system knows.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING
from uuid import UUID

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision, Wanted
from clarion.messages import PushMessage, EnvelopeMessage
from clarion.networks.statements.codec import decode
from clarion.networks.statements.payload import MAX_DATA_SIZE
from pipeline.differences import REPAIRABLE
from pipeline.lake import PLAN, REPLAYS, Kind, Lake, Period, read_text, write_text
from pipeline.oversize import fetched

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef

STATEMENTS = "statements"
"""The route of a statement; that of a push is its channel."""
BATCH = 10
_CHECKPOINTS = "replayed"
_DONE = "done"
_WHO = ("receipt", "subscription_id")
_BUILT = "receipt string, subscription_id string, route string, message string"
_ARROW = pa.schema([(name, pa.string()) for name in ("receipt", "subscription_id", "route", "message")])


class ReplayStopped(Exception):  # noqa: N818 - it says what has happened
    """SQS refused some of a batch; the next run goes on with this batch."""


@dataclass(frozen=True)
class Planned:
    """`expired` are too old to be of use to anybody, or gone; `known` are in an earlier plan."""

    run: str
    notifications: int
    messages: int
    expired: int
    known: int


def plan(lake: Lake, differences: DataFrame, period: Period, now: int, *, dry_run: bool) -> Planned:
    """Work out what to hand back and, unless it is a dry run, write it down as the plan of a new run."""
    repairable = F.col("difference").isin(*(str(one) for one in REPAIRABLE))
    lost = differences.where(repairable & F.col("subscription_id").isNotNull())
    new = lost.join(lake.plans().select(*_WHO), on=list(_WHO), how="leftanti").persist()
    since = Period(period.start, now)
    observed = lake.read(Kind.OBSERVED, since).select("receipt", "observed_at", "statement", "location")
    statements = observed.join(new, on="receipt", how="leftsemi").dropDuplicates(["receipt"])
    queued = lake.read(Kind.NOTIFICATION, since).where(F.col("decision") == NotificationDecision.QUEUED)
    begun = queued.select("receipt", F.lit(True).alias("begun")).distinct()
    whole = new.join(statements, on="receipt", how="inner").join(begun, on="receipt", how="left")
    first = F.row_number().over(Window.partitionBy("receipt").orderBy("subscription_id")) == 1
    rows = whole.select(
        *_WHO, *_CARRIED, "statement", "location", "observed_at", F.coalesce("begun", F.lit(False)).alias("begun"),
        first.alias("first"), F.lit(now).alias("now"),
    ).mapInArrow(partial(_build_batches, oversize=lake.oversize), _BUILT)  # fmt: skip
    run = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    ordered = rows.orderBy("receipt", "subscription_id").withColumn("place", F.monotonically_increasing_id())
    planned = ordered.withColumn("run", F.lit(run)).select(*PLAN.names).persist()
    counts = planned.agg(F.count("*"), F.count("message"), F.count(F.when(F.col("route") == "", 1))).first()
    notifications, messages, expired = counts or (0, 0, 0)
    if not dry_run:
        planned.where(F.col("route") != "").write.mode("append").parquet(lake.path(REPLAYS))
    known = lost.count() - new.count()
    return Planned(run, notifications - expired, messages, expired, known)


_CARRIED = ("envelope_id", "sender", "client_id", "topic", "channel", "wanted")


def _build_batches(batches: Iterable[pa.RecordBatch], oversize: str | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.to_pylist()
        raws = fetched(oversize, (row["statement"] for row in rows), (row["location"] for row in rows))
        built = [_built(row, raw) for row, raw in zip(rows, raws, strict=True)]
        yield pa.RecordBatch.from_pylist(built, schema=_ARROW)


def _built(row: Mapping[str, object], raw: bytes | None) -> dict[str, object]:
    """A row of the plan; what has expired, or is gone, has no route."""
    who = {name: row[name] for name in _WHO}
    nowhere = who | {"route": "", "message": None}
    if raw is None:
        return nowhere
    match row:
        case {"receipt": str(receipt), "observed_at": int(at), "now": int(now)}:
            statement = decode(raw)
        case _:
            raise TypeError(f"no observation: {row['receipt']}")
    if statement.expires_at * 1000 <= now:
        return nowhere
    if not row["begun"]:
        # As ingest sent it: what was too large for a message still is.
        place = {"statement": raw} if row["location"] is None else {"location": row["location"]}
        message = EnvelopeMessage(receipt=UUID(receipt), observed_at=at, **place)
        return who | {"route": STATEMENTS, "message": message.to_json() if row["first"] else None}
    push = _push(row, statement.data, at, statement.expires_at)
    return who | {"route": str(push.channel), "message": push.to_json()}


def _push(row: Mapping[str, object], data: bytes | None, observed_at: int, expires_at: int) -> PushMessage:
    truncated = data is not None and len(data) > MAX_DATA_SIZE
    same = {name: row[name] for name in (*_WHO, *_CARRIED) if name != "wanted"}
    return PushMessage.model_validate(
        same
        | {"observed_at": observed_at, "expires_at": expires_at, "wanted": row["wanted"] or Wanted.ALERT}
        | {"data": None if truncated else data, "truncated": truncated}
    )


def send(
    lake: Lake, sqs: "SQSClient", queues: Mapping[str, str], per_second: float, tell: Callable[[int], None]
) -> int:
    """Send what is planned and not yet sent; returns how many messages went out. `queues` are URLs by route."""
    sent = 0
    for run in unfinished(lake):
        for batch in batched(_messages(lake, run), BATCH, strict=False):
            begun = time.monotonic()
            for route in dict.fromkeys(route for _, route, _ in batch):
                _send_batch(sqs, queues[route], [message for _, its, message in batch if its == route])
            _mark(lake, run, str(batch[-1][0]))
            sent += len(batch)
            tell(sent)
            time.sleep(max(0.0, len(batch) / per_second - (time.monotonic() - begun)))
        _mark(lake, run, _DONE)
    return sent


def unfinished(lake: Lake) -> list[str]:
    runs = [row["run"] for row in lake.plans().select("run").distinct().orderBy("run").collect()]
    return [run for run in runs if _checkpoint(lake, run) != _DONE]


def _messages(lake: Lake, run: str) -> Iterator[tuple[int, str, str]]:
    """`place, route, message`, in order, a partition at a time."""
    mark = _checkpoint(lake, run)
    there: Column = (F.col("run") == run) & F.col("message").isNotNull()
    rest = lake.plans().where(there if mark is None else there & (F.col("place") > int(mark)))
    for row in rest.select("place", "route", "message").orderBy("place").toLocalIterator():
        yield row["place"], row["route"], row["message"]


def _send_batch(sqs: "SQSClient", queue_url: str, bodies: list[str]) -> None:
    entries: list[SendMessageBatchRequestEntryTypeDef] = [
        {"Id": str(number), "MessageBody": body} for number, body in enumerate(bodies)
    ]
    refused = sqs.send_message_batch(QueueUrl=queue_url, Entries=entries).get("Failed", [])
    if refused:
        raise ReplayStopped(f"SQS refused {len(refused)} of {len(bodies)}: {refused[0]['Code']}")


def _checkpoint(lake: Lake, run: str) -> str | None:
    return read_text(lake.path(f"{_CHECKPOINTS}/{run}"))


def _mark(lake: Lake, run: str, mark: str) -> None:
    write_text(lake.path(f"{_CHECKPOINTS}/{run}"), mark)
