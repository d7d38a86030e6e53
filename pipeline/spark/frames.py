"""What makes plans cheaper: rows that are kept or sent to every task, and words as numbers."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from pipeline.spark.session import is_small

BROADCAST_KEYS = 200_000
"""Keys of 65 bytes: some 20 MB in each executor."""
NUMBERS = 10 * BROADCAST_KEYS
"""Rows of a few numbers: as many bytes for each as it takes them to be found, some 100 MB."""


def broadcast_if_few(rows: DataFrame, most: int = BROADCAST_KEYS) -> DataFrame:
    """`rows` are counted first, but where all of the lake that is read is little: they are cheap to read again, or kept."""
    return F.broadcast(rows) if is_small(rows.sparkSession) or rows.count() <= most else rows


def checkpoint(rows: DataFrame) -> DataFrame:
    """`rows`, to be computed once and left on the disks.

    What is persisted stays in the plan of all that is made of it, which Spark analyses anew at each step: of a small
    day that is half of all its work. The price is that a job fails whose executor is lost.
    """
    return rows.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)


def checkpoint_and_broadcast(rows: DataFrame) -> DataFrame:
    """`rows` of a few numbers, kept; each job has them all, unless they are too many."""
    return broadcast_if_few(checkpoint(rows), NUMBERS)


def number_of(words: Iterable[str], word: Column) -> Column:
    """The place of a word among `words`, from 0."""
    return (F.array_position(literals(words), word) - 1).cast("int")


def word_of(words: Iterable[str], number: Column) -> Column:
    return F.get(literals(words), number)


def literals(words: Iterable[str]) -> Column:
    return F.array(*(F.lit(str(word)) for word in words))
