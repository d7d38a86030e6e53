"""Decode and verify statements in Arrow batches, with the functions that the live path uses."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from clarion.decisions import StatementDecision
from clarion.signature import verify
from clarion.statement import MalformedStatement, ProofKind, decode

VERIFIED = StructType([
    StructField("receipt", StringType()),
    StructField("observed_at", LongType()),
    StructField("statement_hash", BinaryType()),
    StructField("sender_pubkey", BinaryType()),
    StructField("topics", ArrayType(BinaryType())),
    StructField("expires_at", LongType()),
    StructField("flaw", StringType()),
])  # fmt: skip
_ARROW = pa.schema([
    ("receipt", pa.string()),
    ("observed_at", pa.int64()),
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


def verified(observed: DataFrame) -> DataFrame:
    """One row for each receipt of `observed` (kind `observed`) whose statement came along, in `VERIFIED`.

    `topics` are distinct, in order. `flaw` is the decision that the bytes alone lead to, or null. By receipt the
    statements fall into even parts, however few and uneven the files are: verifying costs far more than the shuffle.
    """
    # A statement that was too large for the stream is left out here and counted by its caller.
    inline = observed.where(F.col("statement").isNotNull()).select("receipt", "observed_at", "statement")
    return inline.repartition("receipt").mapInArrow(_verify_batches, VERIFIED).dropDuplicates(["receipt"])


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


def _verify_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = [facts(raw) for raw in batch.column("statement").to_pylist()]
        columns = list(zip(*found, strict=True)) if found else [()] * len(Facts._fields)
        receipts, times = batch.column("receipt"), batch.column("observed_at")
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, list(_ARROW)[2:], strict=True)]
        yield pa.RecordBatch.from_arrays([receipts, times, *arrays], schema=_ARROW)
