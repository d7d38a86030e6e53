"""Decode and verify envelopes in Arrow batches, with the functions of their networks that the live path uses.

The tasks read the envelopes' Parquet by PyArrow themselves: on their way through the JVM the bytes, by far the most
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
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from clarion.decisions import EnvelopeDecision
from clarion.networks import Malformed, Network, Rule, network
from pipeline.lake.files import filesystem, read_bytes
from pipeline.period import Period

GONE = "its object is gone"
"""The flaw of an envelope that was too large for a message and whose bytes are no longer where they were put."""

VERIFIED = StructType([
    StructField("receipt", StringType()),
    StructField("network", StringType()),
    StructField("observed_at", LongType()),
    StructField("location", StringType()),
    StructField("envelope_id", BinaryType()),
    StructField("sender", BinaryType()),
    StructField("keys", ArrayType(BinaryType())),
    StructField("expires_at", LongType()),
    StructField("flaw", StringType()),
    StructField("plain", ArrayType(StringType())),
    StructField("may", ArrayType(StringType())),
])  # fmt: skip
_READ = pa.schema([
    ("receipt", pa.string()),
    ("network", pa.string()),
    ("observed_at", pa.int64()),
    ("location", pa.string()),
    ("raw", pa.binary()),
])  # fmt: skip
_CARRIED = _READ.names[:-1]
# Enough to pay for a batch, few enough for the processor's cache. A batch lies in one row group: parquet.ROW_GROUP_BYTES.
_ROWS = 1_000


type _Fact = tuple[
    bytes | None, bytes | None, Sequence[bytes], int | None, str | None, Sequence[str], Sequence[str] | None
]


class Facts(NamedTuple):
    """What envelopes' bytes say, a column each: never anything that depends on when it is looked at.

    `flaw` is the decision that the bytes alone lead to, or None. Of a genuine envelope, `plain` are the answers to rules
    without a condition, one for each of its keys, and `may` those that its network may give to a secret condition, if it
    has such.
    """

    envelope_id: list[bytes | None]
    sender: list[bytes | None]
    keys: list[Sequence[bytes]]
    expires_at: list[int | None]
    flaw: list[str | None]
    plain: list[Sequence[str]]
    may: list[Sequence[str] | None]


def verified(files: DataFrame, observed: Period, oversize: str | None = None) -> DataFrame:
    """A row of `VERIFIED` for each envelope observed in that period; a receipt may be there twice.

    `files` are the lake's, of kind `observed`. Envelopes too large for a message are read from `oversize`, each when
    its turn comes; without it they are left out.
    """
    return files.mapInArrow(partial(_verify_files, observed=observed, oversize=oversize), VERIFIED)


def too_large(observed: DataFrame, period: Period) -> DataFrame:
    """`receipt, network` of what was observed in a period and is `verified` only by its `oversize`."""
    large = observed.where(period.has(F.col("observed_at")) & F.col("location").isNotNull())
    return large.select("receipt", "network").distinct()


def facts(names: Sequence[str], raws: Sequence[bytes | None]) -> Facts:
    """Of the envelopes that the networks of these names showed. None among them has the flaw `GONE`."""
    networks = {name: network(name) for name in set(names)}
    rows = [_fact(networks[name], raw) for name, raw in zip(names, raws, strict=True)]
    return Facts(*map(list, zip(*rows, strict=True))) if rows else Facts(*([] for _ in Facts._fields))


def fetched(root: str | None, raws: Iterable[bytes | None], locations: Iterable[str | None]) -> Iterator[bytes | None]:
    """The envelopes, those that are None read from below `root`, one at a time; None stays where nothing is.

    Ingest puts an envelope that is too large for a message into a bucket, under the `location` it then names.
    """
    for raw, location in zip(raws, locations, strict=True):
        yield read_bytes(root, location) if root and location and raw is None else raw


def _fact(shown_by: Network, raw: bytes | None) -> _Fact:
    if raw is None:
        return None, None, (), None, GONE, (), None
    try:
        envelope = shown_by.decode(raw)
    except Malformed:
        return None, None, (), None, EnvelopeDecision.MALFORMED, (), None
    known = envelope.id, envelope.sender, envelope.keys, envelope.expires_at
    if flaw := shown_by.verify(envelope):
        return *known, flaw, (), None
    plain = [shown_by.wants(envelope, Rule(key), 0) for key in envelope.keys]
    return *known, None, plain, list(shown_by.may_want(envelope)) if shown_by.secret_conditions else None


def _verify_files(
    batches: Iterable[pa.RecordBatch], observed: Period, oversize: str | None
) -> Iterator[pa.RecordBatch]:
    # Nothing here leaves a cycle, and Spark collects after each task, which is quick if it needn't look at all that
    # was ever imported.
    gc.disable()
    gc.freeze()
    for batch in batches:
        for path in batch.column("path").to_pylist():
            for rows in _envelopes(path, observed, everything=oversize is not None):
                yield from (_verify_rows(some, oversize) for some in _affordable(rows))


def _envelopes(path: str, observed: Period, *, everything: bool) -> Iterator[pa.RecordBatch]:
    """The rows of one file; without `everything`, only those that hold an envelope's bytes."""
    files, place = filesystem(path)
    at = dataset.field("observed_at")
    within = (at >= observed.start) & (at < observed.end)
    if not everything:
        within &= dataset.field("raw").is_valid()
    rows = dataset.dataset(place, _READ, format="parquet", filesystem=files)
    found: Iterator[pa.RecordBatch] = rows.to_batches(
        columns=_READ.names, filter=within, batch_size=_ROWS, batch_readahead=1, use_threads=False
    )
    return found


def _affordable(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows, but each on its own whose envelope has yet to be fetched: that may be a megabyte."""
    if not rows.column("raw").null_count:
        yield rows
        return
    here = rows.column("raw").is_valid()
    yield rows.filter(here)
    large = rows.filter(pc.invert(here))
    yield from (large.slice(place, 1) for place in range(large.num_rows))


def _verify_rows(rows: pa.RecordBatch, oversize: str | None) -> pa.RecordBatch:
    raws = rows.column("raw").to_pylist()
    if rows.column("raw").null_count:
        raws = list(fetched(oversize, raws, rows.column("location").to_pylist()))
    found = facts(rows.column("network").to_pylist(), raws)
    columns = [
        *(rows.column(name) for name in _CARRIED),
        pa.array(found.envelope_id, pa.binary()),
        pa.array(found.sender, pa.binary()),
        _lists(found.keys, pa.binary()),
        pa.array(found.expires_at, pa.int64()),
        pa.array(found.flaw, pa.string()),
        _lists(found.plain, pa.string()),
        pa.array(found.may, pa.list_(pa.string())),
    ]
    return pa.RecordBatch.from_arrays(columns, names=VERIFIED.names)


def _lists(values: Sequence[Sequence[object]], kind: pa.DataType) -> pa.ListArray:
    ends = pa.array(accumulate(map(len, values), initial=0), pa.int32())
    return pa.ListArray.from_arrays(ends, pa.array(chain.from_iterable(values), kind))
