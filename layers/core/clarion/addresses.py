"""How the address of each channel is written: Apple's and Google's tokens, a browser's subscription, a webhook's.

An address is stored and sent to as one text; `canonical` makes it the same text however a client writes it, but for a
browser's endpoint, which stays as its push service wrote it. Two are the same that are `known_by` the same.
"""

import json
import re
from typing import Annotated, Self, assert_never
from urllib.parse import unquote_to_bytes

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from clarion.channels import CHANNELS, Channel, Provider

APNS_TOKEN = r"(?:0[xX])?((?:[0-9a-fA-F]{2}){32,100})"  # noqa: S105 - the form of one
"""Apple documents no length to rely on; 32 bytes is what it has always been, 100 what PushKit may reach."""
FCM_TOKEN = r"[0-9a-zA-Z_:.+/=-]{16,1024}"  # noqa: S105 - the form of one


CLIENT_ID = r"^[0-9a-f]{64}$"
MAX_INSTALLATION_ID_BYTES, MAX_CUSTOM_TOKEN_BYTES = 256, 1024
"""In UTF-8."""


def _of_bytes(limit: int) -> AfterValidator:
    def check(text: str) -> str:
        if not 0 < len(text.encode()) <= limit:
            raise ValueError(f"not 1 to {limit} bytes")
        return text

    return AfterValidator(check)


class WebhookAddress(BaseModel):
    """A client's installation and its token. Clients choose both, so it is `client` that keeps those of two apart."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    client: str = Field(pattern=CLIENT_ID)
    """Its id, in hex."""
    installation_id: Annotated[str, _of_bytes(MAX_INSTALLATION_ID_BYTES)] = Field(repr=False)
    token: Annotated[str, _of_bytes(MAX_CUSTOM_TOKEN_BYTES)] = Field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of the JSON object of the three fields. Raise `ValueError`, which shows nothing of them."""
        try:
            return cls.model_validate_json(text)
        except ValidationError:
            raise ValueError("not a JSON object of client, installation_id and token") from None

    @property
    def text(self) -> str:
        """The one spelling of this address: sorted keys, no spaces, nothing escaped that need not be."""
        return json.dumps(self.model_dump(), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def canonical(channel: Channel, text: str) -> str:
    """Raises `ValueError` for what is no address of this channel; its text shows nothing of the address."""
    match CHANNELS[channel].provider:
        case Provider.APNS:
            if found := re.fullmatch(APNS_TOKEN, text):
                return found[1].lower()
        case Provider.FCM:
            if re.fullmatch(FCM_TOKEN, text):
                return text
        case Provider.WEBPUSH:
            # Few deployments meet one, and it takes an import of the elliptic curves to read it.
            from clarion.providers.webpush_address import WebPushAddress  # noqa: PLC0415

            return WebPushAddress.parse(text).text
        case Provider.WEBHOOK:
            return WebhookAddress.parse(text).text
        case provider:
            assert_never(provider)
    raise ValueError(f"must be a token of {channel}")


def known_by(channel: Channel, address: str) -> bytes:
    """What of an address is its own.

    A browser is known by its endpoint alone, or it could be registered again and again with other keys; and by that
    without percent-encoding, which its push service undoes: https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2.2
    """
    if CHANNELS[channel].provider is not Provider.WEBPUSH:
        return address.encode()
    return unquote_to_bytes(json.loads(address)["endpoint"])


def may_be_pushed_to(channel: Channel, address: str, push_services: tuple[str, ...]) -> bool:
    """Whether it belongs to a service that is sent to. Only a browser's address names its service, as a host."""
    if CHANNELS[channel].provider is not Provider.WEBPUSH:
        return True
    from clarion.providers.webpush_address import PUSH_SERVICES, WebPushAddress, service_of  # noqa: PLC0415 - as above

    return service_of(WebPushAddress.parse(address), (*PUSH_SERVICES, *push_services)) is not None
