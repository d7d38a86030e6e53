"""The newest items of a subscription, of a network whose pushes report these and not each by itself.

    number         how many items have come
    sent           up to which of them the subscription's app was pushed
    late_until     when the push goes out that was put off by a limit (UNIX milliseconds)
    item_<name>    when it was observed (8 bytes), then the item as it came; a later one of the same name replaces it

A push names the number that its own item was. Whoever composes it reads the row: if that many were sent by then, another
push has brought what it is about. The newest that a push can take stay, so that the next one repeats them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clarion.networks import Row

_PREFIX = "item_"
_TIME_BYTES = 8
_MOST_REMOVED = 250
"""By one UpdateItem: an expression has 4 KB at most."""


class NewestItem(NamedTuple):
    """`observed_at` is in UNIX milliseconds."""

    name: str
    observed_at: int
    raw: bytes


class NewestRow(NamedTuple):
    """`items` are sorted, the newest last."""

    number: int
    sent: int
    items: Sequence[NewestItem]


class Recorded(NamedTuple):
    """Which number an item was, and when the push goes out that was put off last, if any was."""

    number: int
    late_until: int


def recording(table: str, subscription_id: str, item: NewestItem) -> dict[str, Any]:
    """The UpdateItem that adds an item, by which `recorded` is answered."""
    return {
        **_row(table, subscription_id),
        "UpdateExpression": "SET #item = :item ADD #number :one",
        "ExpressionAttributeNames": {"#item": _PREFIX + item.name, "#number": "number"},
        "ExpressionAttributeValues": {
            ":item": {"B": item.observed_at.to_bytes(_TIME_BYTES) + item.raw},
            ":one": {"N": "1"},
        },
        "ReturnValues": "ALL_NEW",
    }


def recorded(answer: Mapping[str, Any]) -> Recorded:
    row = answer["Attributes"]
    return Recorded(int(row["number"]["N"]), int(row.get("late_until", {"N": "0"})["N"]))


def putting_off(table: str, subscription_id: str, late_until: int) -> dict[str, Any]:
    """The UpdateItem that says that a push is on its way which goes out then."""
    return {
        **_row(table, subscription_id),
        "UpdateExpression": "SET late_until = :late_until",
        "ExpressionAttributeValues": {":late_until": {"N": str(late_until)}},
    }


def read(row: Row) -> NewestRow:
    """Raises `TypeError` or `ValueError` for another row."""
    items = [_item(name, bytes(value)) for name, value in row.items() if name.startswith(_PREFIX)]
    items.sort(key=lambda item: item.observed_at)
    return NewestRow(int(row.get("number", 0)), int(row.get("sent", 0)), items)


def sending(table: str, subscription_id: str, found: NewestRow, count: int) -> dict[str, Any]:
    """The UpdateItem that says that all of `found` was sent, and removes all but the `count` newest.

    Of many, the oldest `_MOST_REMOVED` go. It is refused if more were sent already; and, where something is to be removed, if more has come meanwhile.
    """
    gone = [_PREFIX + item.name for item in found.items[: max(0, len(found.items) - count)][:_MOST_REMOVED]]
    names = {f"#item{index}": name for index, name in enumerate(gone)}
    return {
        **_row(table, subscription_id),
        "UpdateExpression": "SET #sent = :number" + (f" REMOVE {', '.join(names)}" if names else ""),
        "ConditionExpression": ("#number = :number AND " if names else "")
        + "attribute_exists(#number) AND (attribute_not_exists(#sent) OR #sent < :number)",
        "ExpressionAttributeNames": {"#sent": "sent", "#number": "number", **names},
        "ExpressionAttributeValues": {":number": {"N": str(found.number)}},
    }


def _row(table: str, subscription_id: str) -> dict[str, Any]:
    return {"TableName": table, "Key": {"subscription_id": {"S": subscription_id}}}


def _item(name: str, value: bytes) -> NewestItem:
    return NewestItem(name.removeprefix(_PREFIX), int.from_bytes(value[:_TIME_BYTES]), value[_TIME_BYTES:])
