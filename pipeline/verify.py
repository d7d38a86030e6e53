"""Decode and verify statements in Arrow batches, with the functions that the live path uses."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from clarion.decisions import StatementDecision
from clarion.signature import verify
from clarion.statement import MalformedStatement, ProofKind, decode
from pipeline.oversize import fetched

GONE = "its object is gone"
"""The flaw of a statement that was too large for a message and whose bytes are no longer where they were put."""

VERIFIED = StructType([
    StructField("receipt", StringType()),
    StructField("observed_at", LongType()),
    StructField("location", StringType()),
    StructField("statement_hash", BinaryType()),
    StructField("sender_pubkey", BinaryType()),
    StructField("topics", ArrayType(BinaryType())),
    StructField("expires_at", LongType()),
    StructField("flaw", StringType()),
])  # fmt: skip
_CARRIED = ("receipt", "observed_at", "location")
_FOUND = pa.schema([
    ("statement_hash", pa.binary()),
    ("sender_pubkey", pa.binary()),
    ("topics", pa.list_(pa.binary())),
    ("expires_at", pa.int64()),
    ("flaw", pa.string()),
])  # fmt: skip


class Facts(NamedTuple):
    """What a statement's bytes say: never anything that depends on when it is looked at."""

    statement_hash: bytes | None = None
    sender_pubkey: bytes | None = None
    topics: tuple[bytes, ...] = ()
    expires_at: int | None = None
    flaw: str | None = None


def verified(observed: DataFrame, oversize: str | None = None) -> DataFrame:
    """A row of `VERIFIED` for each row of `observed` (kind `observed`), which may name a receipt twice.

    `topics` are distinct, in order. `flaw` is the decision that the bytes alone lead to, or null. Statements too large
    for a message are read from `oversize`, each when its turn comes; without it they are left out.

    The statements are verified where they are read: their bytes, by far the most of the lake, are never shuffled.
    """
    readable = observed if oversize else observed.where("statement is not null")
    columns = readable.select(*_CARRIED, "statement")
    return columns.mapInArrow(partial(_verify_batches, oversize=oversize), VERIFIED)


def facts(raw: bytes) -> Facts:
    try:
        statement = decode(raw)
    except MalformedStatement:
        return Facts(flaw=StatementDecision.MALFORMED)
    flaw = None
    if statement.proof is None or statement.proof.kind is not ProofKind.SR25519:
        flaw = StatementDecision.UNSUPPORTED_PROOF
    elif not verify(statement):
        flaw = StatementDecision.BAD_SIGNATURE
    topics = tuple(dict.fromkeys(statement.topics))
    return Facts(statement.hash, statement.signer, topics, statement.expires_at, flaw)


def _verify_batches(batches: Iterable[pa.RecordBatch], oversize: str | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        raws = batch.column("statement").to_pylist()
        if batch.column("statement").null_count:
            raws = fetched(oversize, raws, batch.column("location").to_pylist())
        found = [Facts(flaw=GONE) if raw is None else facts(raw) for raw in raws]
        columns = zip(*found, strict=True) if found else ((),) * len(_FOUND)
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, _FOUND, strict=True)]
        carried = [batch.column(name) for name in _CARRIED]
        yield pa.RecordBatch.from_arrays([*carried, *arrays], names=VERIFIED.names)
