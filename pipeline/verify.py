"""Decode and verify statements in Arrow batches, with the functions that the live path uses.

The tasks read the statements' Parquet by PyArrow themselves: on their way through the JVM the bytes, by far the most
of the lake, would be copied so often that it costs a third of what all but the signature costs.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain
from typing import NamedTuple

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import dataset
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from clarion.decisions import EnvelopeDecision
from clarion.networks.statements.codec import MalformedStatement, ProofKind, Statement, decode
from clarion.networks.statements.signature import verify
from pipeline.lake import Period, filesystem
from pipeline.oversize import fetched

GONE = "its object is gone"
"""The flaw of a statement that was too large for a message and whose bytes are no longer where they were put."""

VERIFIED = StructType([
    StructField("receipt", StringType()),
    StructField("observed_at", LongType()),
    StructField("location", StringType()),
    StructField("envelope_id", BinaryType()),
    StructField("sender", BinaryType()),
    StructField("topics", ArrayType(BinaryType())),
    StructField("expires_at", LongType()),
    StructField("flaw", StringType()),
])  # fmt: skip
_READ = pa.schema([
    ("receipt", pa.string()),
    ("observed_at", pa.int64()),
    ("location", pa.string()),
    ("statement", pa.binary()),
])  # fmt: skip
_CARRIED = _READ.names[:-1]
_ROWS = 1_000
"""At a time: as many as pay for a batch, and few enough to stay in the processor's cache. They are of one row group,
which has 128 MB at most."""


class Facts(NamedTuple):
    """What statements' bytes say, a column each: never anything that depends on when it is looked at.

    `topics` are distinct, in order. `flaw` is the decision that the bytes alone lead to, or None.
    """

    envelope_id: list[bytes | None]
    sender: list[bytes | None]
    topics: list[tuple[bytes, ...]]
    expires_at: list[int | None]
    flaw: list[str | None]


def verified(files: DataFrame, observed: Period, oversize: str | None = None) -> DataFrame:
    """A row of `VERIFIED` for each statement observed in that period; a receipt may be there twice.

    `files` are the lake's, of kind `observed`. Statements too large for a message are read from `oversize`, each when
    its turn comes; without it they are left out.
    """
    return files.mapInArrow(partial(_verify_files, observed=observed, oversize=oversize), VERIFIED)


def facts(raws: Sequence[bytes | None]) -> Facts:
    """None among the statements has the flaw `GONE`."""
    statements = [_decoded(raw) for raw in raws]
    return Facts(
        [statement and statement.hash for statement in statements],
        [statement and statement.signer for statement in statements],
        [_distinct(statement.topics) if statement else () for statement in statements],
        [statement and statement.expires_at for statement in statements],
        [_flaw(raw, statement) for raw, statement in zip(raws, statements, strict=True)],
    )


def _decoded(raw: bytes | None) -> Statement | None:
    try:
        return None if raw is None else decode(raw)
    except MalformedStatement:
        return None


def _distinct(topics: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return topics if len(topics) < 2 else tuple(dict.fromkeys(topics))


def _flaw(raw: bytes | None, statement: Statement | None) -> str | None:
    if statement is None:
        return GONE if raw is None else EnvelopeDecision.MALFORMED
    if statement.proof is None or statement.proof.kind is not ProofKind.SR25519:
        return EnvelopeDecision.UNSUPPORTED_PROOF
    return None if verify(statement) else EnvelopeDecision.BAD_SIGNATURE


def _verify_files(
    batches: Iterable[pa.RecordBatch], observed: Period, oversize: str | None
) -> Iterator[pa.RecordBatch]:
    gc.disable()  # nothing here leaves a cycle, and Spark collects after each task
    gc.freeze()  # and that is quick if it needn't look at all that was ever imported
    for batch in batches:
        for path in batch.column("path").to_pylist():
            for rows in _statements(path, observed, everything=oversize is not None):
                yield from (_verify_rows(some, oversize) for some in _affordable(rows))


def _statements(path: str, observed: Period, *, everything: bool) -> Iterator[pa.RecordBatch]:
    """The rows of one file; without `everything`, only those that hold a statement's bytes."""
    files, place = filesystem(path)
    at = dataset.field("observed_at")
    wanted = (at >= observed.start) & (at < observed.end)
    if not everything:
        wanted &= dataset.field("statement").is_valid()
    rows = dataset.dataset(place, _READ, format="parquet", filesystem=files)
    found: Iterator[pa.RecordBatch] = rows.to_batches(
        columns=_READ.names, filter=wanted, batch_size=_ROWS, batch_readahead=1, use_threads=False
    )
    return found


def _affordable(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows, but each on its own whose statement has yet to be fetched: that may be a megabyte."""
    if not rows.column("statement").null_count:
        yield rows
        return
    here = rows.column("statement").is_valid()
    yield rows.filter(here)
    large = rows.filter(pc.invert(here))
    yield from (large.slice(place, 1) for place in range(large.num_rows))


def _verify_rows(rows: pa.RecordBatch, oversize: str | None) -> pa.RecordBatch:
    raws = rows.column("statement").to_pylist()
    if rows.column("statement").null_count:
        raws = list(fetched(oversize, raws, rows.column("location").to_pylist()))
    found = facts(raws)
    ends = pa.array(accumulate(map(len, found.topics), initial=0), pa.int32())
    topics = pa.ListArray.from_arrays(ends, pa.array(chain.from_iterable(found.topics), pa.binary()))
    columns = [
        *(rows.column(name) for name in _CARRIED),
        pa.array(found.envelope_id, pa.binary()),
        pa.array(found.sender, pa.binary()),
        topics,
        pa.array(found.expires_at, pa.int64()),
        pa.array(found.flaw, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=VERIFIED.names)
