"""moto's DynamoDB transactions, without a copy of each named table for each of their items.

moto copies a table so that a transaction which fails can be undone, anew for each item that names it: of tests that
write in transactions, that was half of the time. Here a table's rows are kept as they are, and moto works on copies of
those that the transaction updates.
"""

import copy
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table

MOTOS = DynamoDBBackend.transact_write_items
"""The function as moto has it."""
_copy = copy.deepcopy
_kept = threading.local()


def install() -> None:
    """For all of the process."""
    DynamoDBBackend.transact_write_items = _transact_on_copies  # type: ignore[assignment, method-assign]
    Table.__deepcopy__ = _deepcopy  # type: ignore[attr-defined]


def _transact_on_copies(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
    operations = [next(iter(item.values())) for item in transact_items]
    tables = {operation.get("TableName"): backend.tables.get(operation.get("TableName")) for operation in operations}
    _kept.tables = {id(table): _snapshot(table) for table in tables.values() if table}
    try:
        for operation in operations:
            _replace_by_copy(tables[operation.get("TableName")], operation)
        MOTOS(backend, transact_items)
    finally:
        _kept.tables = {}


def _deepcopy(table: Table, memo: dict[int, Any]) -> Table:
    """What is kept of it, in a transaction."""
    if kept := getattr(_kept, "tables", {}).get(id(table)):
        return kept  # type: ignore[no-any-return]
    copied = copy.copy(table)
    memo[id(table)] = copied
    copied.__dict__.update({name: _copy(value, memo) for name, value in vars(table).items()})
    return copied


def _snapshot(table: Table) -> Table:
    """With the same rows, in dictionaries and a stream of its own."""
    kept = copy.copy(table)
    kept.items = defaultdict(
        dict, {key: dict(row) if isinstance(row, dict) else row for key, row in table.items.items()}
    )
    if table.stream_shard:
        kept.stream_shard = copy.copy(table.stream_shard)
        kept.stream_shard.table, kept.stream_shard.items = kept, list(table.stream_shard.items)
    return kept


def _replace_by_copy(table: Table | None, operation: Mapping[str, Any]) -> None:
    """The row that an update changes where it lies."""
    key = operation.get("Key")
    if table is None or "UpdateExpression" not in operation or not key or table.hash_key_attr not in key:
        return
    path = [DynamoType(key[name]) for name in table.table_key_attrs if name in key]
    rows: Any = table.items
    for part in path[:-1]:
        rows = rows.get(part, {})
    if path[-1] in rows:
        rows[path[-1]] = _copy(rows[path[-1]])
