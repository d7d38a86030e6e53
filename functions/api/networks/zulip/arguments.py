"""What a call brings: a form, as Zulip's servers send most of the time, or a JSON object."""

from typing import Any
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
    name, *rest = first["loc"] or ("",)
    if first["type"] == "missing" and not rest:
        return ZulipError(ZulipCode.REQUEST_VARIABLE_MISSING, f"Missing '{name}' argument", {"var_name": name})
    index: dict[str, Any] = {"index": rest[0]} if rest and isinstance(rest[0], int) else {}
    place = f"{name}[{rest[0]}]" if index else str(name)
    return ZulipError(ZulipCode.BAD_REQUEST, f"{place}: {first['msg']}".removeprefix(": "), index)
