"""The requests that write a row of `clarion.newest`: each an UpdateItem.

recording ──▶ refused: there is a newer item, or no room ──▶ trimming, of the row as it was ──▶ refused: again
noting_sent ▶ refused: more has come ──▶ noting_sent_alone
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from clarion.networks import Newest
from clarion.newest import ITEM_PREFIX, NewestItem, NewestRow, brought_by_push, ranked


class NewestKey(NamedTuple):
    table: str
    subscription_id: str


class NewestArrival(NamedTuple):
    """Items of different names to be recorded, `kept` at most; `limited` if a limit holds back all of them.

    `at` is in UNIX milliseconds.
    """

    items: Sequence[NewestItem]
    at: int
    limited: bool = False


def recording(key: NewestKey, policy: Newest, arrival: NewestArrival) -> dict[str, Any]:
    """Adds the items. The answer has the whole row.

    It is refused, with the row as it is, if that has a newer item of such a name, or no room for another name.
    """
    update = _arriving(policy, arrival)
    room, number = update.name("room"), update.name("number")
    update.sets.append(f"{room} = if_not_exists({room}, {update.value(_number(policy.kept))})")
    names = [update.name(ITEM_PREFIX + item.name) for item in arrival.items]
    for name, item in zip(names, arrival.items, strict=True):
        update.conditions.append(f"(attribute_not_exists({name}) OR {name} <= {update.put(name, _stored(item))})")
    are_there = " AND ".join(f"attribute_exists({name})" for name in names)
    update.conditions.append(f"(attribute_not_exists({room}) OR {number} < {room} OR ({are_there}))")
    return update.request(key) | {"ReturnValues": "ALL_NEW", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def trimming(key: NewestKey, policy: Newest, arrival: NewestArrival, row: NewestRow) -> dict[str, Any]:
    """Adds the items to `row`, as it was read. Of more than it may have, those are kept that the next push would bring.

    The answer has the whole row. It is refused if the row has changed.
    """
    update, after = _arriving(policy, arrival), row.with_items(arrival.items)
    kept = ranked(after, policy)[: policy.most] if len(after.items) > policy.kept else after.items
    for item in kept:
        if item not in row.items:
            update.set(ITEM_PREFIX + item.name, _stored(item))
    update.set("room", _number(row.number + len(arrival.items) + policy.kept - len(kept)))
    update.remove(row.items, kept)
    update.conditions.append(f"{update.name('number')} = {update.value(_number(row.number))}")
    return update.request(key) | {"ReturnValues": "ALL_NEW"}


def noting_sent(key: NewestKey, policy: Newest, row: NewestRow) -> dict[str, Any]:
    """Says that a push has brought what it takes of `row`. Of what was brought, no more is kept than a push takes.

    It is refused if as much was sent already, or more has come meanwhile.
    """
    brought = brought_by_push(row, policy)
    gone = brought[: max(0, len(row.items) - policy.most)]
    kept = [item for item in row.items if item not in gone]
    update = _noting(row, [item for item in brought if item not in gone])
    update.set("room", _number(row.number + policy.kept - len(kept)))
    update.remove(row.items, kept)
    update.conditions.append(f"{update.name('number')} = {update.value(_number(row.number))}")
    return update.request(key)


def noting_sent_alone(key: NewestKey, policy: Newest, row: NewestRow) -> dict[str, Any]:
    """The same, and nothing is removed."""
    return _noting(row, brought_by_push(row, policy)).request(key)


def putting_off(key: NewestKey, late_until: int) -> dict[str, Any]:
    """Says that a push is on its way that goes out after `late_until`. It is refused if the row was erased meanwhile."""
    update = _Update()
    update.set("late_until", _number(late_until))
    update.set("limited", _number(0))
    update.conditions.append(f"attribute_exists({update.name('number')})")
    return update.request(key)


class _Update:
    """A request in the making. Expressions have names and values by their numbers."""

    def __init__(self) -> None:
        self.sets: list[str] = []
        self.adds: list[str] = []
        self.removes: list[str] = []
        self.conditions: list[str] = []
        self._names: dict[str, str] = {}
        self._values: dict[str, dict[str, Any]] = {}

    def name(self, attribute: str) -> str:
        return self._names.setdefault(attribute, f"#n{len(self._names)}")

    def value(self, value: dict[str, Any]) -> str:
        name = f":v{len(self._values)}"
        self._values[name] = value
        return name

    def put(self, name: str, value: dict[str, Any]) -> str:
        """Set what has that name in expressions; returns that of the value."""
        placed = self.value(value)
        self.sets.append(f"{name} = {placed}")
        return placed

    def set(self, attribute: str, value: dict[str, Any]) -> None:
        self.put(self.name(attribute), value)

    def add(self, attribute: str, amount: int) -> None:
        self.adds.append(f"{self.name(attribute)} {self.value(_number(amount))}")

    def remove(self, items: Sequence[NewestItem], kept: Sequence[NewestItem]) -> None:
        """Those of which nothing under their names is kept."""
        names = {item.name for item in kept}
        self.removes += [self.name(ITEM_PREFIX + item.name) for item in items if item.name not in names]

    def request(self, key: NewestKey) -> dict[str, Any]:
        clauses = {"SET": self.sets, "ADD": self.adds, "REMOVE": self.removes}
        condition = {"ConditionExpression": " AND ".join(self.conditions)} if self.conditions else {}
        return {
            "TableName": key.table,
            "Key": {"subscription_id": {"S": key.subscription_id}},
            "UpdateExpression": " ".join(f"{verb} {', '.join(each)}" for verb, each in clauses.items() if each),
            "ExpressionAttributeNames": {name: attribute for attribute, name in self._names.items()},
            "ExpressionAttributeValues": self._values,
            **condition,
        }


def _arriving(policy: Newest, arrival: NewestArrival) -> _Update:
    update = _Update()
    update.set("ttl", _number(arrival.at // 1000 + policy.life_seconds))
    update.add("number", len(arrival.items))
    if arrival.limited:
        update.add("limited", 1)
    return update


def _noting(row: NewestRow, shown: Sequence[NewestItem]) -> _Update:
    update = _Update()
    update.set("sent", _number(row.number))
    update.set("shown", {"B": b"".join(item.digest for item in shown)})
    number, sent = update.name("number"), update.name("sent")
    before = f"(attribute_not_exists({sent}) OR {sent} < {update.value(_number(row.number))})"
    update.conditions += [f"attribute_exists({number})", before]
    return update


def _stored(item: NewestItem) -> dict[str, Any]:
    return {"B": item.stored}


def _number(value: int) -> dict[str, Any]:
    return {"N": str(value)}
