"""What the bodies of all requests have in common.

The apps in the field spell some fields differently: every spelling is accepted. Bytes are hex, with or without `0x`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema, model_validator


def _hex(size: int) -> Callable[[object], bytes]:
    form = re.compile(rf"(?:0[xX])?([0-9a-fA-F]{{{2 * size}}})")

    def parse(value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        found = form.fullmatch(value) if isinstance(value, str) else None
        if not found:
            raise ValueError(f"must be {size} bytes as {2 * size} hex digits, with or without 0x")
        return bytes.fromhex(found[1])

    return parse


def _hex_schema(size: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^(0[xX])?[0-9a-fA-F]{{{2 * size}}}$"})


Key = Annotated[bytes, BeforeValidator(_hex(32)), PlainSerializer(bytes.hex, return_type=str), _hex_schema(32)]


def at_most(limit: int) -> BeforeValidator:
    """Looks at a list before its items: each that breaks a rule takes memory, and a body has room for a million."""

    def short(value: object) -> object:
        if isinstance(value, list) and len(value) > limit:
            raise ValueError(f"must be at most {limit}")
        return value

    return BeforeValidator(short)


Signature = Annotated[bytes, BeforeValidator(_hex(64)), _hex_schema(64)]


def _meaning(value: object) -> object:
    """What neither the case of hex nor its prefix changes. No field with two spellings holds more than a text.

    So whatever else is there equals nothing: to compare two lists within lists may go deeper than Python can.
    """
    if isinstance(value, str):
        return value.lower().removeprefix("0x")
    return None if value is None else object()


class RequestBody(BaseModel):
    """Fields that a later version may know are passed over; two spellings of one field must not differ."""

    model_config = ConfigDict(frozen=True)
    spellings: ClassVar[Sequence[Sequence[str]]] = ()

    @model_validator(mode="before")
    @classmethod
    def _agree(cls, given: Any) -> Any:
        for names in cls.spellings if isinstance(given, Mapping) else ():
            values = [_meaning(given[name]) for name in names if name in given]
            if any(value != values[0] for value in values):
                raise ValueError(f"{' and '.join(names)} mean the same but differ")
        return given
