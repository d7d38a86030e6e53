"""What the bodies of all requests have in common, and those of some answers.

The apps in the field spell some fields differently: every spelling is accepted. Bytes are hex, with or without `0x`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain, islice
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

_HEX = re.compile(r"(0[xX])?[0-9a-fA-F-]*")
"""Of bytes or of a UUID."""


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
    """What neither the case of hex nor its prefix changes.

    A list or an object equals nothing: to compare two may go deeper than Python can.
    """
    if isinstance(value, str):
        return value.lower().removeprefix("0x") if _HEX.fullmatch(value) else value
    return value if value is None or isinstance(value, int | float) else object()


def _both_cases(name: str) -> str | AliasChoices:
    """A field's name in snake case, by which the API's description has it, and in camel case."""
    return AliasChoices(name, to_camel(name)) if "_" in name else name


class RequestBody(BaseModel):
    """Each field may be spelt in snake case or in camel case. A member that is no field is refused, since it may be a misspelt one; two spellings of one field must not differ."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=AliasGenerator(validation_alias=_both_cases))

    @model_validator(mode="before")
    @classmethod
    def _by_one_spelling(cls, given: Any) -> Any:
        """Each field by one of its spellings, and at most one member that is no field: each that is refused takes memory."""
        if not isinstance(given, Mapping):
            return given
        known = _spellings(cls)
        used = [present[0] for each in known if (present := _agreeing(each, given))]
        names = set(chain(*known))
        others = (name for name in given if name not in names)
        return {name: given[name] for name in (*used, *islice(others, 1))}


def _without_null(schema: dict[str, Any]) -> None:
    for member in schema["properties"].values():
        if "anyOf" in member:
            member["anyOf"] = [kind for kind in member["anyOf"] if kind != {"type": "null"}]
            if len(member["anyOf"]) == 1:
                member.update(member.pop("anyOf")[0])


class SparseAnswer(BaseModel):
    """To be written without the members that are None: so they may be absent, but are never null."""

    model_config = ConfigDict(json_schema_extra=_without_null)


@cache
def _spellings(model: type[BaseModel]) -> tuple[tuple[str, ...], ...]:
    """Of each field how its name may be spelt."""
    fields = model.model_fields.items()
    return tuple(tuple(_names(name, field.validation_alias)) for name, field in fields)


def _names(name: str, alias: object) -> Iterator[str]:
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias or name]
    yield from (choice for choice in choices if isinstance(choice, str))


def _agreeing(names: tuple[str, ...], given: Mapping[str, Any]) -> list[str]:
    """Those that are given; raises `ValueError` if they differ."""
    present = [name for name in names if name in given]
    values = [_meaning(given[name]) for name in present] if len(present) > 1 else []
    if any(value != values[0] for value in values):
        raise ValueError(f"{' and '.join(present)} mean the same but differ")
    return present
