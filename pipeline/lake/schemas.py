"""The rows of the lake as Spark knows them. docs/lake.md describes them for people, `pipeline.columns` for all others."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pipeline.columns import COLUMNS, Type

_TEXT, _LONG, _BYTES = StringType(), LongType(), BinaryType()
RULE = StructType([
    StructField("key", _BYTES),
    StructField("condition", _BYTES),
    StructField("condition_digest", _BYTES),
])  # fmt: skip
_TYPES: dict[Type, DataType] = {
    Type.TEXT: _TEXT,
    Type.LONG: _LONG,
    Type.INT: IntegerType(),
    Type.BYTES: _BYTES,
    Type.FLAG: BooleanType(),
    Type.RULES: ArrayType(RULE),
}

SCHEMAS = {
    kind: StructType([StructField(each.name, _TYPES[each.type], nullable=not each.needed) for each in columns])
    for kind, columns in COLUMNS.items()
}


def in_spark(schema: pa.Schema) -> StructType:
    """The columns that a task of Python gives, for `mapInArrow`."""
    return from_arrow_schema(schema)


def _field(name: str, kind: DataType, *, needed: bool = True) -> StructField:
    return StructField(name, kind, nullable=not needed)


DIFFERENCE = StructType([
    _field("difference", _TEXT),
    _field("evidence", _TEXT, needed=False),
    _field("receipt", _TEXT),
    _field("subscription_id", _TEXT, needed=False),
    _field("network", _TEXT, needed=False),
    _field("envelope_id", _BYTES, needed=False),
    _field("sender", _BYTES, needed=False),
    _field("client_id", _BYTES, needed=False),
    _field("key", _BYTES, needed=False),
    _field("channel", _TEXT, needed=False),
    _field("wanted", _TEXT, needed=False),
    _field("at", _LONG, needed=False),
])  # fmt: skip
"""What `reconcile` finds."""

PLAN = StructType([
    _field("place", _LONG),
    _field("receipt", _TEXT),
    _field("subscription_id", _TEXT),
    _field("message", _TEXT, needed=False),
])  # fmt: skip
"""What `replay` sends again: a row for each notification."""
