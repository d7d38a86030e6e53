"""`token_id`: by what a shipped server knows a token, a number of 64 bits as base64 of its big-endian bytes."""

from base64 import b64decode, b64encode
from typing import Annotated

from pydantic import AfterValidator

from clarion.networks.zulip.registration import TOKEN_ID_BYTES


def number_of(token_id: str) -> int:
    """Raises `ValueError` for what is no such text."""
    raw = _decoded(token_id)
    if len(raw) != TOKEN_ID_BYTES:
        raise ValueError(f"must be {TOKEN_ID_BYTES} bytes in base64")
    return int.from_bytes(raw, signed=True)


def _decoded(token_id: str) -> bytes:
    """Nothing, of what is no base64."""
    try:
        return b64decode(token_id, validate=True)
    except ValueError:
        return b""


def text_of(number: int) -> str:
    return b64encode(number.to_bytes(TOKEN_ID_BYTES, signed=True)).decode()


def _canonical(token_id: str) -> str:
    """As `text_of` spells it, which is how its server knows it."""
    return text_of(number_of(token_id))


TokenId = Annotated[str, AfterValidator(_canonical)]
