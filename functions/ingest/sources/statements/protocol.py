"""The node's JSON-RPC, as pure functions over frames: three generations of it, one shape inside.

- current: `statement_subscribeStatement`; the result of a notification is `{"event": "newStatements", "data":
  {"statements": [hex], "remaining": n?}}`; `remaining` is there during the replay and ends at 0.
- older (before February 2026): the same method; the result is one statement's bare hex.
- draft: `statement_unstable_subscribe`, then `statement_unstable_add_filter`; explicit `replayStatements`,
  `replayDone`, `newStatements` and `stop`.

https://github.com/paritytech/polkadot-sdk/tree/master/substrate/client/rpc-api/src/statement
https://paritytech.github.io/json-rpc-interface-spec/api/statement_unstable_subscribe.html
"""

import json
from binascii import unhexlify
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic_core import from_json

from ingest.sources import SourceFault

SUBSCRIBE = "statement_subscribeStatement"
DRAFT_SUBSCRIBE = "statement_unstable_subscribe"
DRAFT_ADD_FILTER = "statement_unstable_add_filter"
_NOTIFICATIONS = ("statement_statement", "statement_unstable_subscribeEvent")

MAX_STORE_STATEMENTS = 4_194_304
"""A node's store holds no more: `DEFAULT_MAX_TOTAL_STATEMENTS` of polkadot-sdk's statement store."""

_FREE_VALUES, _BYTES_PER_VALUE = 4096, 48
"""How many values the JSON of a frame may have: so many, which take a quarter of a megabyte, and one for so many bytes.

The smallest statement has 108 bytes, so 222 characters a value, or 253 for four values in the draft.
"""
_MOST_UNREADABLE = 100
_LONGEST_ID = 256


class Origin(StrEnum):
    """Why a node shows a statement: `unknown` is what the older protocol leaves us with."""

    REPLAY = "replay"
    LIVE = "live"
    UNKNOWN = "unknown"


class RequestRefused(SourceFault):
    """The node answered our request with an error."""


class Shown(NamedTuple):
    """What one notification showed. `unreadable` counts statements that weren't hex.

    `remaining` is what the replay still owes, where the protocol says so; `replay_done` marks its end. A tuple, as it is
    made of each frame.
    """

    statements: list[bytes]
    origin: Origin
    unreadable: int = 0
    remaining: int | None = None
    replay_done: bool = False


@dataclass(frozen=True, slots=True)
class RpcAnswer:
    """The node's answer to our request `id`; `result` is whatever JSON it chose to send."""

    id: str | int | None
    result: object


def request(number: int, method: str, *params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def read(frame: bytes) -> Shown | RpcAnswer | None:
    """Make sense of one frame; None for a notification that doesn't concern us. Raise `SourceFault`."""
    message = _parse(frame)
    if not isinstance(message, dict):
        raise SourceFault("a frame is not a JSON object")
    if "method" in message:
        return _notification(message)
    if message.get("error") is not None:
        raise RequestRefused("a request was refused")
    if "result" not in message:
        raise SourceFault("a frame is neither answer nor notification")
    number = message.get("id")
    return RpcAnswer(None if number is None else read_id(number), message["result"])


def read_id(value: object) -> str | int:
    """The id of a request or a subscription. Raise `SourceFault` for what is neither a string nor an integer."""
    if type(value) is int or (isinstance(value, str) and len(value) <= _LONGEST_ID):
        return value
    raise SourceFault("an id is neither a string nor an integer")


def _parse(frame: bytes) -> Any:
    """Refuse, before anything is made of it, what would take much more memory than the frame itself.

    The parser bounds the nesting, at some 200 levels. It is pydantic's: for frames of a statement each, orjson and msgspec
    took a tenth longer.
    """
    if len(frame) > _FREE_VALUES:  # else it can't have so many
        values = frame.count(b",") + frame.count(b"[") + frame.count(b"{")
        if values > _FREE_VALUES + len(frame) // _BYTES_PER_VALUE:
            raise SourceFault("a frame has too many values")
    try:
        return from_json(frame, cache_strings="keys")
    except ValueError:
        raise SourceFault("a frame is not JSON") from None


def _notification(message: dict[str, object]) -> Shown | None:
    if message["method"] not in _NOTIFICATIONS:
        return None
    params = message.get("params")
    result = params.get("result") if isinstance(params, dict) else None
    if isinstance(result, str):
        return _shown([result], Origin.UNKNOWN)
    if not isinstance(result, dict):
        raise SourceFault("a notification has no result")
    match result.get("event"):
        case "newStatements" if "data" in result:
            return _current(result["data"])
        case "newStatements":
            return _shown(_draft_live(_listed(result)), Origin.LIVE)
        case "replayStatements":
            return _shown(_listed(result), Origin.REPLAY)
        case "replayDone":
            return Shown([], Origin.REPLAY, replay_done=True)
        case "stop":
            raise SourceFault("the node ended the subscription")
    raise SourceFault("a notification of no known kind")


def _current(data: object) -> Shown:
    if not isinstance(data, dict):
        raise SourceFault("a notification has no data")
    if "remaining" not in data or data["remaining"] is None:
        return _shown(_listed(data), Origin.LIVE)
    remaining = data["remaining"]
    if type(remaining) is not int or not 0 <= remaining <= MAX_STORE_STATEMENTS:
        raise SourceFault("remaining is no sensible number")
    return _shown(_listed(data), Origin.REPLAY, remaining)


def _listed(holder: dict[str, object]) -> list[object]:
    statements = holder.get("statements")
    if not isinstance(statements, list):
        raise SourceFault("a notification has no list of statements")
    return statements


def _draft_live(entries: list[object]) -> list[object]:
    return [entry.get("statement") if isinstance(entry, dict) else None for entry in entries]


def _shown(texts: Iterable[object], origin: Origin, remaining: int | None = None) -> Shown:
    statements = []
    unreadable = 0
    for text in texts:
        try:
            statements.append(unhexlify(text.removeprefix("0x")))  # type: ignore[attr-defined] # caught below
        except (ValueError, AttributeError, TypeError):
            unreadable += 1
            if unreadable > _MOST_UNREADABLE:
                raise SourceFault("what it shows is not hex") from None
    return Shown(statements, origin, unreadable, remaining, replay_done=remaining == 0)
