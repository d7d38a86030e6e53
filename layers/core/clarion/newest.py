"""The newest items of a subscription, of a network whose pushes report these and not each by itself.

    item_<name>    when it was observed (8 bytes), then the item as it came; a later one of the same name replaces it
    number         how many items have been recorded
    room           at which number the row has to be trimmed before an item of another name is added
    sent           up to which number the subscription's app was pushed
    shown          digests of the items that a push has brought
    late_until     until when what a limit holds back needs no push: one is on its way (UNIX milliseconds)
    limited        how often something was recorded since that push was sent which a limit held back
    ttl            UNIX seconds

A push names the number that the row had with its own item. Whoever composes it reads the row: if that many were sent by
then, another push has brought what it is about. What a push has brought stays in the row while there is room, so that the
next one repeats it. `clarion.newest_updates` has the requests that write it.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from clarion.networks import Newest, Row

ITEM_PREFIX = "item_"
_TIME_BYTES = 8
_DIGEST_BYTES = 4


class NewestItem(NamedTuple):
    """`observed_at` is in UNIX milliseconds."""

    name: str
    observed_at: int
    raw: bytes

    @property
    def stored(self) -> bytes:
        return self.observed_at.to_bytes(_TIME_BYTES) + self.raw

    @property
    def digest(self) -> bytes:
        return blake2b(self.name.encode() + self.stored, digest_size=_DIGEST_BYTES).digest()


class NewestRow(NamedTuple):
    """`items` are sorted, the newest last. Fields are as in the module's docstring."""

    number: int
    sent: int
    items: Sequence[NewestItem]
    shown: Collection[bytes] = ()
    late_until: int = 0
    limited: int = 0

    def is_shown(self, item: NewestItem) -> bool:
        return item.digest in self.shown

    def with_items(self, items: Iterable[NewestItem]) -> "NewestRow":
        """The same with these, where it has none of their names that is newer."""
        newest = {item.name: item for item in sorted([*self.items, *items], key=_observed_at)}
        return self._replace(items=sorted(newest.values(), key=_observed_at))


def read(row: Row) -> NewestRow:
    """Raises `TypeError` or `ValueError` for another row."""
    items = [_item(name, bytes(value)) for name, value in row.items() if name.startswith(ITEM_PREFIX)]
    shown = bytes(row.get("shown", b""))
    return NewestRow(
        number=int(row.get("number", 0)),
        sent=int(row.get("sent", 0)),
        items=sorted(items, key=_observed_at),
        shown={shown[start : start + _DIGEST_BYTES] for start in range(0, len(shown), _DIGEST_BYTES)},
        late_until=int(row.get("late_until", 0)),
        limited=int(row.get("limited", 0)),
    )


def read_item(item: Mapping[str, Mapping[str, Any]]) -> NewestRow:
    """The same of a row as DynamoDB has it, with the type of each value."""
    return read({name: value for name, typed in item.items() for value in typed.values()})


def ranked(row: NewestRow, policy: Newest) -> list[NewestItem]:
    """Its items in the order in which they are wanted: first those that no push has brought.

    Of these, and then of the others, each group's newest, the newest first; then each group's second, and so on. So
    a group with many items hides none of another.
    """
    before, rank = Counter[tuple[bool, Hashable]](), dict[NewestItem, tuple[bool, int]]()
    newest_first = row.items[::-1]
    for item in newest_first:
        shown = row.is_shown(item)
        group = (shown, policy.group_of(item.raw))
        rank[item] = (shown, before[group])
        before[group] += 1
    return sorted(newest_first, key=rank.__getitem__)


def chosen(row: NewestRow, policy: Newest) -> list[NewestItem]:
    """What one push brings of it, the newest last."""
    fitting = policy.fitting([item.raw for item in ranked(row, policy)])
    return [item for item in row.items if item.raw in fitting]


def brought_by_push(row: NewestRow, policy: Newest) -> list[NewestItem]:
    """What pushes have brought once one more is delivered, the newest last."""
    brought = chosen(row, policy)
    return [item for item in row.items if item in brought or row.is_shown(item)]


def _item(name: str, value: bytes) -> NewestItem:
    return NewestItem(name.removeprefix(ITEM_PREFIX), int.from_bytes(value[:_TIME_BYTES]), value[_TIME_BYTES:])


def _observed_at(item: NewestItem) -> int:
    return item.observed_at
