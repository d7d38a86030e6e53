"""moto's answers with DynamoDB's values, without a search for the ten kinds that a value is not of.

A value is `{"S": "text"}` or of another kind. moto looks in it for each kind there is, by up to six spellings: that was a
sixth of the time of tests that read many rows. Here only the kinds that it names are looked at.
"""

from typing import Any

from moto.core.model import StructureShape
from moto.core.serialize import ResponseSerializer

MOTOS = ResponseSerializer._serialize_type_structure
"""The function as moto has it."""
VALUE = "AttributeValue"


def install() -> None:
    """For all of the process."""
    ResponseSerializer._serialize_type_structure = _serialize  # type: ignore[assignment, method-assign]


def _serialize(serializer: Any, serialized: Any, value: Any, shape: StructureShape, key: str) -> None:
    if shape.name != VALUE or not key or type(value) is not dict or not value.keys() <= shape.members.keys():
        MOTOS(serializer, serialized, value, shape, key)
        return
    wrapper = serializer.MAP_TYPE()
    for name, content in value.items():
        if content is not None:
            member: Any = shape.members[name]
            member.parent = shape
            serializer._serialize(wrapper, content, member, name)
    serializer._default_serialize(serialized, wrapper, shape, key)
