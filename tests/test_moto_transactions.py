"""The quicker transactions do what moto's own do."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from moto.dynamodb.exceptions import TransactionCanceledException
from moto.dynamodb.models import DynamoDBBackend

from tests import moto_transactions

TABLES = ("by_hash", "by_both")
NAMES = st.sampled_from("ab")
KINDS = st.sampled_from(("Put", "Update", "Delete"))
CONDITIONS = st.sampled_from((None, None, "attribute_exists(id)", "attribute_not_exists(id)"))
OPERATIONS = st.tuples(st.sampled_from(TABLES), NAMES, NAMES, KINDS, st.integers(0, 2), CONDITIONS)
TRANSACTIONS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=4, unique_by=lambda one: one[:2]), max_size=6)
type Operation = tuple[str, str, str, str, int, str | None]


def tables() -> DynamoDBBackend:
    backend = DynamoDBBackend("us-east-1", "1" * 12)
    for name, keys in zip(TABLES, (("id",), ("id", "part")), strict=True):
        kinds = dict(zip(keys, ("HASH", "RANGE"), strict=False))
        backend.create_table(
            name,
            schema=[{"AttributeName": key, "KeyType": kind} for key, kind in kinds.items()],
            throughput={},
            attr=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
            global_indexes=[],
            indexes=[],
            streams={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            billing_mode="PAY_PER_REQUEST",
            sse_specification=None,
            tags=[],
            deletion_protection_enabled=None,
            warm_throughput=None,
        )
    return backend


def item_of(operation: Operation) -> dict[str, Any]:
    table, name, part, kind, value, condition = operation
    key = {"id": {"S": name}} | ({"part": {"S": part}} if table == "by_both" else {})
    asked: dict[str, Any] = {"TableName": table} | ({"ConditionExpression": condition} if condition else {})
    if kind == "Put":
        return {kind: asked | {"Item": key | {"value": {"N": str(value)}}}}
    if kind == "Update":
        values = {":value": {"N": str(value)}, ":more": {"L": [{"N": str(value)}]}, ":none": {"L": []}}
        update = "SET #value = :value, listed = list_append(if_not_exists(listed, :none), :more)"
        named = {"ExpressionAttributeNames": {"#value": "value"}, "ExpressionAttributeValues": values}
        return {kind: asked | {"Key": key, "UpdateExpression": update} | named}
    return {kind: asked | {"Key": key}}


def state_after(
    transact: Callable[[DynamoDBBackend, list[dict[str, Any]]], None], transactions: list[list[Operation]]
) -> list[object]:
    backend, results = tables(), list[object]()
    for operations in transactions:
        try:
            transact(backend, [item_of(one) for one in operations])
            results.append("written")
        except TransactionCanceledException as error:
            results.append(error.message)
    for name in TABLES:
        table = backend.tables[name]
        results.append(sorted(repr(row.to_json()) for row in table.all_items()))
        assert table.stream_shard
        for one in table.stream_shard.items:
            images = {name: value for name, value in one.record["dynamodb"].items() if name.endswith(("Keys", "Image"))}
            results.append((one.record["eventName"], images))
    return results


@given(TRANSACTIONS)
def test_rows_and_streams_are_as_motos_own_transactions_leave_them(transactions: list[list[Operation]]) -> None:
    quicker = state_after(DynamoDBBackend.transact_write_items, transactions)
    assert quicker == state_after(moto_transactions.MOTOS, transactions)
