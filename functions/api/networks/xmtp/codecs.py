"""A message as bytes: protobuf, or protobuf's JSON (camel case, bytes in base64, 64-bit numbers as text).

https://protobuf.dev/programming-guides/json/
"""

import json
from enum import Enum
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from api.networks.xmtp.codes import CallCode, CallError
from api.settings import MOST_RULES

MOST_KEYS = 16
"""Of one topic, in one request; clients give three."""


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
    if not isinstance(found, dict) or not _is_short(found):
        raise ValueError
    # JSON may spell half of a surrogate pair, which is no text: protobuf raises SystemError at a name that has one.
    json.dumps(found, ensure_ascii=False).encode()
    return json_format.ParseDict(found, empty, ignore_unknown_fields=True)


def _is_short(found: dict[str, Any]) -> bool:
    """Looks at lists before their items: each takes time and memory, and a body has room for a million."""
    lists = [value for value in found.values() if isinstance(value, list)]
    if any(len(items) > MOST_RULES for items in lists):
        return False
    within = (value for items in lists for item in items if isinstance(item, dict) for value in item.values())
    return not any(isinstance(value, list) and len(value) > MOST_KEYS for value in within)
