"""What dispatch sends for each push, by what the token's subscription has sealed for it.

network_data    agreed secret (32 bytes) ++ code, sealed by the storage key and bound to the subscription's id
"""

from clarion.channels import Channel
from clarion.decisions import Purpose
from clarion.messages import PushMessage
from clarion.networks import Payload, Receiver
from clarion.networks.simplex.bodies import NewestItems
from clarion.networks.simplex.payload import WAKE_UP, message_payload, verification_payload
from clarion.networks.simplex.storage_key import StorageKey

_AGREED_BYTES = 32


def sealed_for_dispatch(key: StorageKey, subscription_id: str, agreed: bytes, code: bytes) -> bytes:
    """A subscription's `network_data`."""
    return key.seal(agreed + code, subscription_id.encode())


def compose(channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes]:
    """Raises `LookupError` for another channel, and `UnopenableError` if the storage key is another by now."""
    if channel is not Channel.APNS:
        raise LookupError(channel)
    if push.purpose is Purpose.WAKE_UP:
        return Payload(WAKE_UP, truncated=False)
    agreed, code = _opened(push, receiver)
    if push.purpose is Purpose.VERIFICATION:
        return Payload(verification_payload(agreed, code), truncated=False)
    if not isinstance(push.body, NewestItems):
        raise TypeError("no push of SimpleX")
    return Payload(message_payload(agreed, push.body.items), truncated=False)


def _opened(push: PushMessage, receiver: Receiver) -> tuple[bytes, bytes]:
    if receiver.secret is None or receiver.network_data is None:
        raise LookupError("no secret to compose with")
    opened = StorageKey.of(receiver.secret).open(receiver.network_data, str(push.subscription_id).encode())
    return opened[:_AGREED_BYTES], opened[_AGREED_BYTES:]
