"""A message as bytes: protobuf, or protobuf's JSON (camel case, bytes in base64, 64-bit numbers as text).

https://protobuf.dev/programming-guides/json/
"""

import json
from enum import Enum
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from api.networks.xmtp.codes import CallError, Code

MOST_ITEMS = 10_000
"""In one list of a message in JSON: each item takes time and memory, and a body has room for a million."""


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
            raise CallError(Code.INVALID_ARGUMENT, text) from None

    def write(self, message: Message) -> bytes:
        if self is Codec.PROTO:
            return message.SerializeToString()
        return json.dumps(json_format.MessageToDict(message), separators=(",", ":")).encode()


def _from_json[M: Message](raw: bytes, empty: M) -> M:
    """An empty body is an empty message, as with connect-go."""
    found = json.loads(raw) if raw else {}
    if not isinstance(found, dict) or not _is_short(found):
        raise ValueError
    return json_format.ParseDict(found, empty, ignore_unknown_fields=True)


def _is_short(found: dict[str, Any]) -> bool:
    """Whether no list of the message, and none in its items, has more than a request may use."""
    lists = [value for value in found.values() if isinstance(value, list)]
    if any(len(one) > MOST_ITEMS for one in lists):
        return False
    items = (item for one in lists for item in one if isinstance(item, dict))
    within = sum(len(value) for item in items for value in item.values() if isinstance(value, list))
    return within <= 10 * MOST_ITEMS
