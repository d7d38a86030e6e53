import json
from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import Box, PrivateKey, PublicKey

from clarion.channels import CHANNELS, Channel
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.blocks import unpad
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.items import PADDED_BYTES, MessageArrived, QueueItem, fitting, joined
from clarion.networks.simplex.payload import (
    WAKE_UP,
    message_payload,
    token_secret,
    verification_payload,
)

MOST = CHANNELS[Channel.APNS].payload_bytes
OURS, DEVICE = PrivateKey(b"o" * 32), PrivateKey(b"d" * 32)
SECRET = token_secret(OURS, DEVICE.public_key)
ONION = SmpServer(("smp14.simplex.im", "o" * 56 + ".onion"), "5223", bytes(32))
"""As long as those of SimpleX's own servers."""
ITEMS = [
    QueueItem(SmpQueue(ONION, bytes([number]) * 24), 1_700_000_000 + number, MessageArrived(b"n" * 24, b"m" * 144))
    for number in range(6)
]
CODE = b"c" * 32


def opened(payload: bytes, name: str) -> bytes:
    """As the device does it, by its own half of the keys."""
    data = json.loads(payload)["notificationData"]
    assert data.keys() == {"nonce", name}
    nonce, sealed = urlsafe_b64decode(data["nonce"]), urlsafe_b64decode(data[name])
    return unpad(Box(DEVICE, OURS.public_key).decrypt(sealed, nonce))


def test_a_message_shows_a_text_that_says_nothing() -> None:
    payload = json.loads(message_payload(SECRET, ITEMS))
    assert payload["aps"] == {
        "mutable-content": 1,
        "alert": "Encrypted message or another app event",
        "category": "NTF_CAT_CHECK_MESSAGE",
    }
    assert len(payload["notificationData"]["nonce"]) == 32


def test_the_device_reads_all_items_of_six_onion_servers() -> None:
    assert opened(message_payload(SECRET, ITEMS), "message") == b";".join(item.text.encode() for item in ITEMS)


def test_items_that_are_fitting_have_room_in_one_message_and_more_are_refused() -> None:
    long = [QueueItem(item.queue, item.read_at, MessageArrived(b"n" * 24, b"m" * 255)) for item in ITEMS]
    some = list(fitting(long))
    assert len(some) == 5
    assert opened(message_payload(SECRET, some), "message") == joined(some)
    with pytest.raises(ValueError, match="too long"):
        message_payload(SECRET, long)


def test_a_verification_is_silent_and_carries_the_code() -> None:
    payload = verification_payload(SECRET, CODE)
    assert json.loads(payload)["aps"] == {"content-available": 1}
    assert opened(payload, "verification") == CODE


def test_a_wake_up_is_silent_and_carries_nothing() -> None:
    assert json.loads(WAKE_UP) == {"aps": {"content-available": 1}, "notificationData": {"checkMessages": True}}


@given(count=st.integers(1, 6))
def test_all_messages_are_of_one_size_that_apple_takes(count: int) -> None:
    assert len(message_payload(SECRET, ITEMS[:count])) == len(message_payload(SECRET, ITEMS)) <= MOST


def test_no_larger_padding_would_fit() -> None:
    """Three bytes more are four characters more; 16 are the box's own."""
    assert len(verification_payload(SECRET, CODE)) <= MOST
    assert len(message_payload(SECRET, ITEMS)) + 4 > MOST
    assert (PADDED_BYTES + 16) % 3 == 0


def test_with_its_nonce_a_payload_is_the_same() -> None:
    assert message_payload(SECRET, ITEMS, b"n" * 24) == message_payload(SECRET, ITEMS, b"n" * 24)
    assert message_payload(SECRET, ITEMS) != message_payload(SECRET, ITEMS)


def test_a_device_whose_key_is_of_low_order_has_no_secret() -> None:
    with pytest.raises(MalformedSimplex):
        token_secret(OURS, PublicKey(bytes(32)))
