"""How the address of each channel is written: Apple's and Google's tokens, and a browser's subscription.

An address is stored, hashed and compared as one text; `canonical` makes it the same text however a client writes it.
"""

import re
from typing import assert_never

from clarion.channels import CHANNELS, Channel, Provider

APNS_TOKEN = r"(?:0[xX])?((?:[0-9a-fA-F]{2}){32,100})"  # noqa: S105 - the form of one
"""Apple documents no length to rely on; 32 bytes is what it has always been, 100 what PushKit may reach."""
FCM_TOKEN = r"[0-9a-zA-Z_:.+/=-]{16,1024}"  # noqa: S105 - the form of one


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
        case provider:
            assert_never(provider)
    raise ValueError(f"must be a token of {channel}")


def may_be_pushed_to(channel: Channel, address: str, push_services: tuple[str, ...]) -> bool:
    """Whether it belongs to a service that is sent to. Only a browser's address names its service, as a host."""
    if CHANNELS[channel].provider is not Provider.WEBPUSH:
        return True
    from clarion.providers.webpush_address import PUSH_SERVICES, WebPushAddress, service_of  # noqa: PLC0415 - as above

    return service_of(WebPushAddress.parse(address), (*PUSH_SERVICES, *push_services)) is not None
