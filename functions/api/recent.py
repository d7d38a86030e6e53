"""Rows of who calls, kept for a while, so that not each call reads them."""

from collections.abc import Callable, Hashable
from time import monotonic

from pynamodb.models import Model

KEPT_SECONDS = 60
MOST_KEPT = 10_000


class Recent[Key: Hashable, Row: Model]:
    """Rows by their ids, kept for `KEPT_SECONDS`."""

    def __init__(self, find: Callable[[Key], Row | None], clock: Callable[[], float] = monotonic) -> None:
        self._find = find
        self._clock = clock
        self._kept: dict[Key, tuple[float, Row]] = {}

    def get(self, row_id: Key, serves: Callable[[Row], bool]) -> Row | None:
        """One that doesn't serve is read again: nothing is refused by what it was before."""
        read_at, row = self._kept.get(row_id, (0.0, None))
        if row is not None and self._clock() < read_at + KEPT_SECONDS and serves(row):
            return row
        row = self._find(row_id)
        if row is not None:
            self._keep(row_id, row)
        return row

    def _keep(self, row_id: Key, row: Row) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[row_id] = (self._clock(), row)
