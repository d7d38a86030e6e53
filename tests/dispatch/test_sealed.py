"""Sealed pushes on their way through dispatch, opened by the client for Python."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from clarion import base64url
from clarion.channels import Channel
from clarion.decisions import PushDecision
from clarion.messages import PushMessage
from clarion.proofs import ProofCode
from clarion.sealing import parse_device_key
from clarion.settings import TITLE
from clarion.tables import Subscription
from clarion_client.sealed import DeviceKey
from local.apns import Apns
from local.fcm import Fcm
from tests.standins import NOW

DATA = b"hello".hex()

type Register = Callable[..., Subscription]
type Write = Callable[..., PushMessage]


@pytest.fixture
def app() -> DeviceKey:
    return DeviceKey.generate()


@pytest.fixture
def device_key(app: DeviceKey) -> bytes:
    return parse_device_key(app.public)


def test_an_iphone_opens_what_apple_gets_sealed(
    app: DeviceKey, device_key: bytes, register: Register, message: Write, worker: Any, queue: Any, apns: Apns
) -> None:
    row = register(Channel.APNS, "a1" * 32, device_key=device_key)
    queue.put(message(row))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = apns.received
    assert received.payload.keys() == {"aps", "clarion"}
    opened = app.open(received.payload, row.subscription_id)
    assert opened["aps"] == {"alert": {"title": TITLE}, "mutable-content": 1}
    assert opened["statement"]["data"] == DATA


def test_an_android_phone_opens_what_google_gets_sealed(
    app: DeviceKey,
    device_key: bytes,
    register: Register,
    message: Write,
    android_fleet: Any,
    queue: Any,
    fcm: Fcm,
) -> None:
    row = register(Channel.FCM, "an-android-phone", device_key=device_key)
    queue.put(message(row))
    assert android_fleet.work().decisions == {PushDecision.DELIVERED: 1}
    data = fcm.received[0].payload["message"]["data"]
    assert data.keys() == {"clarion"}
    opened = app.open(data, row.subscription_id)
    assert (opened["statement_data"], opened["notify_type"]) == (DATA, "alert")


def test_the_code_of_a_verification_is_for_the_app_alone(
    app: DeviceKey, device_key: bytes, register: Register, worker: Any, queue: Any, apns: Apns
) -> None:
    proof = ProofCode.new(int(NOW * 1000))
    row = register(Channel.APNS, "a1" * 32, device_key=device_key, status="pending", **proof.attributes)
    queue.put(proof.message(row, int(NOW * 1000)))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = apns.received
    code = base64url.encode(proof.secret)
    assert code not in json.dumps(received.payload)
    opened = app.open(received.payload, row.subscription_id)
    assert opened["clarion"] == {"purpose": "verification", "subscription_id": row.subscription_id, "code": code}
