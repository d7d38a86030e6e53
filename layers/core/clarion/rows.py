"""Rows of the tables' models as the SDK's client has them, without an object of pynamodb's for each.

Where a request is sent for every notification, this takes a third of the time.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pynamodb.attributes import Attribute, NumberAttribute
from pynamodb.models import Model

from clarion.backoff import back_off

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_ROUNDS = 8
_MOST_DOUBLINGS = 4
"""Of the pause before what a throttle left is asked for again: a third of a second then."""

type DynamoItem = dict[str, dict[str, Any]]
"""By column, its value by its type: `{"ttl": {"N": "1800000000"}}`."""


class _Column(NamedTuple):
    attribute: str
    name: str
    kind: str
    serialize: Callable[[Any], Any]
    deserialize: Callable[[Any], Any]


class BatchRead(NamedTuple):
    """Those of the items asked for that exist, in any order, and the keys of those that a throttle has left unread."""

    items: list[DynamoItem]
    left: list[DynamoItem]


def item_of(model: type[Model], values: Mapping[str, object]) -> DynamoItem:
    """The item with these attributes of the model; those that are None are left out."""
    columns = _by_attribute(model)
    item: DynamoItem = {}
    for attribute, value in values.items():
        if value is not None:
            _, name, kind, serialize, _ = columns[attribute]
            item[name] = {kind: serialize(value)}
    return item


def values_of(model: type[Model], item: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The attributes that the item has. Raises `KeyError` for a column that is of another type."""
    columns = _by_name(model)
    values: dict[str, Any] = {}
    for name, value in item.items():
        if column := columns.get(name):
            values[column.attribute] = column.deserialize(value[column.kind])
    return values


def plain(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of no model, with its values as boto3 has them."""
    from boto3.dynamodb.types import TypeDeserializer  # noqa: PLC0415 - imports boto3, and few networks have such rows

    return {name: TypeDeserializer().deserialize(value) for name, value in item.items()}


def query(dynamodb: "DynamoDBClient", **request: Any) -> Iterator[Mapping[str, Any]]:
    """All items that the request finds, each page when it is needed."""
    while True:
        answer = dynamodb.query(**request)
        yield from answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def batch_get(
    dynamodb: "DynamoDBClient",
    model: type[Model],
    keys: Iterable[Mapping[str, object]],
    attributes: Iterable[str] = (),
) -> BatchRead:
    """Up to 100 items, each with these attributes, or all: eventually consistent.

    What a throttle leaves is asked for again after a pause, for some two seconds: at least one item is read each time, or
    the request fails.
    """
    table, names = model.Meta.table_name, {f"#{name}": _by_attribute(model)[name].name for name in attributes}
    wanted = {"ProjectionExpression": ",".join(names), "ExpressionAttributeNames": names} if names else {}
    items: list[Any] = []
    left: Any = {table: {"Keys": [item_of(model, key) for key in keys], **wanted}}
    for attempt in range(_ROUNDS):
        if attempt:
            time.sleep(back_off(min(attempt - 1, _MOST_DOUBLINGS)))
        answer = dynamodb.batch_get_item(RequestItems=left)
        items += answer["Responses"][table]
        left = answer["UnprocessedKeys"]
        if not left:
            return BatchRead(items, [])
    return BatchRead(items, left[table]["Keys"])


@cache
def _by_attribute(model: type[Model]) -> dict[str, _Column]:
    return {
        name: _Column(name, one.attr_name, one.attr_type, *_codec(one)) for name, one in model.get_attributes().items()
    }


@cache
def _by_name(model: type[Model]) -> dict[str, _Column]:
    return {column.name: column for column in _by_attribute(model).values()}


def _codec(attribute: Attribute[Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    # All numbers are whole: JSON, by which pynamodb writes and reads them, has the same digits and takes ten times as long.
    return (str, int) if isinstance(attribute, NumberAttribute) else (attribute.serialize, attribute.deserialize)
