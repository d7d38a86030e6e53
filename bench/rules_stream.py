"""How often ingest reads the stream of the rules' table, and what that costs."""

from pipeline.prices import FREE_STREAM_READS, STREAM_READ

SHARDS = 4
"""Of a new table, which has as many partitions."""


def reads_a_second(tasks: int, pause: float) -> float:
    """By all tasks, with `pause` seconds between two readings of one."""
    return tasks * SHARDS / pause


def month_dollars(reads: float) -> float:
    return max(0, reads - FREE_STREAM_READS) * STREAM_READ / 1_000_000
