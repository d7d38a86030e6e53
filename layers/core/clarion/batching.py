"""Grouping what is sent by its size: requests and records are bounded in bytes."""

from collections.abc import Callable, Iterable, Iterator
from math import inf


def by_size[Item](
    items: Iterable[Item], size_of: Callable[[Item], int], most_bytes: int, most: float = inf
) -> Iterator[list[Item]]:
    """The items in their order, at most `most` together of `most_bytes`. One that is larger is alone."""
    batch: list[Item] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and (len(batch) >= most or total + size > most_bytes):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
