"""A message as bytes: protobuf, or protobuf's JSON (camel case, bytes in base64, 64-bit numbers as text).

https://protobuf.dev/programming-guides/json/
"""

import json
import re
from collections.abc import Container, Iterable
from enum import Enum
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from api.networks.xmtp.codes import CallCode, CallError
from api.networks.xmtp.limits import check_keys, check_topics
from api.settings import MOST_RULES

_LISTS_OF_TOPICS = ("topics", "subscriptions")
_LISTS_OF_KEYS = ("hmacKeys", "hmac_keys")
"""JSON may spell it as the schema does, too."""
_BASE64 = re.compile(
    "|".join(
        f"(?:{digit}{{4}})*(?:{digit}{{2}}(?:==)?|{digit}{{3}}=?)?" for digit in ("[A-Za-z0-9+/]", "[A-Za-z0-9_-]")
    )
)
"""In either alphabet, padded or not."""


class Codec(Enum):
    """By what the name of its media types ends in."""

    JSON = "json"
    PROTO = "proto"

    def read[M: Message](self, raw: bytes, kind: type[M]) -> M:
        """Unknown fields are passed over. Raises `CallError`."""
        try:
            return kind.FromString(raw) if self is Codec.PROTO else _from_json(raw, kind())
        except (DecodeError, json_format.ParseError, ValueError, RecursionError):
            # What these say may quote the message.
            text = f"not a {kind.DESCRIPTOR.name} in {'protobuf' if self is Codec.PROTO else 'JSON'}"
            raise CallError(CallCode.INVALID_ARGUMENT, text) from None

    def write(self, message: Message) -> bytes:
        if self is Codec.PROTO:
            return message.SerializeToString()
        return json.dumps(json_format.MessageToDict(message), separators=(",", ":")).encode()


def _from_json[M: Message](raw: bytes, empty: M) -> M:
    """An empty body is an empty message, as with connect-go."""
    found = json.loads(raw) if raw else {}
    if not isinstance(found, dict):
        raise json_format.ParseError
    _check_topics(found, empty.DESCRIPTOR.fields_by_name)
    # JSON may spell half of a surrogate pair, which is no text: protobuf raises SystemError at a name that has one.
    json.dumps(found, ensure_ascii=False).encode()
    return json_format.ParseDict(found, empty, ignore_unknown_fields=True)


def _check_topics(found: dict[str, Any], known: Container[str]) -> None:
    """Looks at lists before their items: each takes time and memory, and a body has room for a million."""
    for named in _lists(found, [name for name in _LISTS_OF_TOPICS if name in known]):
        check_topics(named, MOST_RULES)
        for one in filter(_is_object, named):
            for keys in _lists(one, _LISTS_OF_KEYS):
                check_keys(keys)
                _check_base64(keys)


def _check_base64(keys: list[Any]) -> None:
    """json_format passes over what is no base64, and so would read an empty key, which erases the one that is stored."""
    for key in (one.get("key") for one in filter(_is_object, keys)):
        if isinstance(key, str) and not _BASE64.fullmatch(key):
            raise json_format.ParseError


def _lists(found: dict[str, Any], names: Iterable[str]) -> list[list[Any]]:
    return [found[name] for name in names if isinstance(found.get(name), list)]


def _is_object(found: object) -> bool:
    return isinstance(found, dict)
