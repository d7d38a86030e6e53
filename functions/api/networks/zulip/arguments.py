"""What a call brings: a form, as Zulip's servers send most of the time, or a JSON object."""

from collections.abc import Sequence
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, ValidationError

from api.networks.zulip.errors import ZulipCode, ZulipError
from api.requests import Event, body_of

MOST_FIELDS = 50
"""Of a form; servers send ten."""


class Arguments(BaseModel):
    """What a later server may add is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


def of_body[A: Arguments](event: Event, kind: type[A], limit: int) -> A:
    """Raises `ZulipError`, and `Problem` for more than `limit` bytes."""
    try:
        raw = body_of(event, limit)
        if _is_json(event):
            return kind.model_validate_json(raw or b"{}")
        return kind.model_validate(dict(parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)))
    except ValidationError as error:
        raise _refusal(error) from None
    except ValueError:
        raise ZulipError(ZulipCode.BAD_REQUEST, "neither a form nor a JSON object in UTF-8") from None


def of_query[A: Arguments](event: Event, kind: type[A]) -> A:
    """Raises `ZulipError`."""
    try:
        return kind.model_validate(event.get("queryStringParameters") or {})
    except ValidationError as error:
        raise _refusal(error) from None


def _is_json(event: Event) -> bool:
    media_type: str = event["headers"].get("content-type", "")
    return media_type.partition(";")[0].strip().lower() == "application/json"


def _refusal(error: ValidationError) -> ZulipError:
    """By the first fault, which is named with its place: of an entry in a list, the `index`. Never quotes it."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    # The name of a member that is one too many is the caller's.
    place = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    if first["type"] == "missing" and len(place) == 1:
        return ZulipError(ZulipCode.REQUEST_VARIABLE_MISSING, f"Missing '{place[0]}' argument", {"var_name": place[0]})
    index = {"index": place[1]} if len(place) > 1 and isinstance(place[1], int) else {}
    text = f"{_spelled(place)}: {first['msg'].removeprefix('Value error, ')}"
    return ZulipError(ZulipCode.BAD_REQUEST, text.removeprefix(": "), index)


def _spelled(place: Sequence[int | str]) -> str:
    """`push_requests[1].fcm.payload.push_key_id`"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
