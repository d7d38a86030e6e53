"""What a request brings, and how the first fault of a body is named."""

from http import HTTPStatus
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, TypeAdapter, ValidationError

from api.networks.walletconnect.errors import DappError, unprocessable
from api.requests import Event, body_of
from clarion.networks.walletconnect.did import is_account


class DappArguments(BaseModel):
    """Members that are not known are passed over: dapps may be written for another Notify server."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


type Items[Item] = Annotated[list[Item], FailFast()]
"""Each fault that is found takes memory, a body has room for many thousands, and the first is named alone."""


def _account(text: str) -> str:
    if not is_account(text):
        raise ValueError("is no account such as eip155:1:0x…, with the capitals of EIP-55")
    return text


Account = Annotated[str, AfterValidator(_account)]


def of_body[Body](event: Event, kind: TypeAdapter[Body], limit: int) -> Body:
    """Raises `DappError`, and `Problem` for more than `limit` bytes."""
    try:
        return kind.validate_json(body_of(event, limit))
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> DappError:
    """Names the first fault with its place, and never quotes it."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return DappError(HTTPStatus.BAD_REQUEST, "the body is no JSON")
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).removeprefix(".")
    return unprocessable(": ".join(filter(None, [place, first["msg"].removeprefix("Value error, ")])))
