"""What Clarion seals, the client for Python opens."""

import json
from typing import Any
from uuid import uuid4

import pytest
from cryptography.exceptions import InvalidTag

from clarion.networks import FcmMessage, Payload
from clarion.sealing import parse_device_key, seal
from clarion_client.sealed import DeviceKey

CONTENT = {"statement": {"data": "c0ffee"}}


def test_an_app_opens_what_is_sealed_for_it() -> None:
    key, name = DeviceKey.generate(), uuid4()
    payload = {"aps": {"mutable-content": 1}} | CONTENT
    sealed = seal(Payload(json.dumps(payload).encode(), truncated=False), parse_device_key(key.public), name)
    assert isinstance(sealed.body, bytes)
    received = json.loads(sealed.body)
    assert "statement" not in received
    assert DeviceKey(key.private).open(received, str(name)) == payload


def test_an_android_app_opens_its_data() -> None:
    key, name = DeviceKey.generate(), uuid4()
    message: FcmMessage = {"data": {"statement_data": "c0ffee"}, "android": {}}
    sealed = seal(Payload(message, truncated=False), parse_device_key(key.public), name)
    assert not isinstance(sealed.body, bytes)
    assert key.open(sealed.body["data"], str(name)) == message["data"]


def test_another_subscriptions_push_does_not_open() -> None:
    key = DeviceKey.generate()
    sealed = seal(Payload(json.dumps(CONTENT).encode(), truncated=False), parse_device_key(key.public), uuid4())
    assert isinstance(sealed.body, bytes)
    with pytest.raises(InvalidTag):
        key.open(json.loads(sealed.body), str(uuid4()))


def test_another_version_is_not_tried() -> None:
    with pytest.raises(ValueError, match="too old"):
        DeviceKey.generate().open({"clarion": {"v": 2, "sealed": "AAAA"}}, str(uuid4()))


@pytest.mark.parametrize(
    "payload",
    [
        {"aps": {}, **CONTENT},
        {"aps": {}, "clarion": {"purpose": "wake_up", "subscription_id": str(uuid4())}},
        {"clarion": json.dumps({"purpose": "wake_up", "subscription_id": str(uuid4())})},
    ],
    ids=["a statement", "a wake-up", "a wake-up of FCM"],
)
def test_what_is_not_sealed_stays_as_it_is(payload: dict[str, Any]) -> None:
    assert DeviceKey.generate().open(payload, str(uuid4())) == payload


def test_the_private_key_is_not_shown() -> None:
    assert "private" not in repr(DeviceKey.generate())
