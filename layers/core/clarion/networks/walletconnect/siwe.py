"""The text that an account's owner signed, rebuilt from the fields of a CACAO: https://eips.ethereum.org/EIPS/eip-4361

app.example.com wants you to sign in with your Ethereum account:
0x931E…

I further authorize this app to …

URI: did:key:z6Mk…
Version: 1
…
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from clarion.networks.walletconnect.did import account_of


def instant_of(text: str) -> datetime:
    """Raises `ValueError` for what is no instant of ISO 8601 with its offset from UTC."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError("no offset from UTC")
    return instant


def _instant(text: str) -> str:
    instant_of(text)
    return text


type TextLine = Annotated[str, Field(pattern=r"^[^\r\n]*$")]
"""A line break in a field would write the fields after it."""
type Timestamp = Annotated[TextLine, AfterValidator(_instant)]


class SiwePayload(BaseModel):
    """As https://chainagnostic.org/CAIPs/caip-74 names the fields. `iss` is a did:pkh; whoever reads it checks that."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)

    domain: TextLine
    iss: TextLine
    aud: TextLine
    version: Literal["1"]
    nonce: TextLine
    iat: TextLine
    statement: TextLine | None = None
    exp: Timestamp | None = None
    nbf: Timestamp | None = None
    request_id: Annotated[TextLine | None, Field(alias="requestId")] = None
    resources: list[TextLine] | None = None


def message_of(payload: SiwePayload) -> str:
    """Raises `MalformedDid`."""
    return "\n".join(_lines(payload))


def _lines(payload: SiwePayload) -> Iterator[str]:
    _, chain, address = account_of(payload.iss).split(":")
    yield f"{payload.domain} wants you to sign in with your Ethereum account:"
    yield address
    yield ""
    if payload.statement is not None:
        yield payload.statement
    yield ""
    yield f"URI: {payload.aud}"
    yield f"Version: {payload.version}"
    yield f"Chain ID: {chain}"
    yield f"Nonce: {payload.nonce}"
    yield f"Issued At: {payload.iat}"
    optional = {"Expiration Time": payload.exp, "Not Before": payload.nbf, "Request ID": payload.request_id}
    yield from (f"{label}: {value}" for label, value in optional.items() if value is not None)
    if payload.resources:
        yield "Resources:"
        yield from (f"- {resource}" for resource in payload.resources)
