"""Sealed pushes on their way through dispatch, opened by the example in the docs."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from clarion.channels import Channel
from clarion.decisions import Purpose, PushDecision, Wanted
from clarion.messages import PushMessage
from clarion.own_pushes import VerificationBody
from clarion.sealing import parse_device_key
from clarion.settings import TITLE
from clarion.tables import Subscription
from local.apns import Apns
from local.fcm import Fcm

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "open_sealed.py"
DATA = b"hello".hex()

type Register = Callable[..., Subscription]
type Write = Callable[..., PushMessage]


@pytest.fixture
def app(tmp_path: Path) -> Callable[..., str]:
    """What the example prints."""

    def app(*arguments: str, payload: object = None) -> str:
        command = [sys.executable, str(EXAMPLE), str(tmp_path / "key"), *arguments]
        return subprocess.run(
            command, input=json.dumps(payload), capture_output=True, text=True, check=True
        ).stdout.strip()

    return app


@pytest.fixture
def device_key(app: Callable[..., str]) -> bytes:
    return parse_device_key(app())


def test_an_iphone_opens_what_apple_gets_sealed(
    app: Callable[..., str], device_key: bytes, register: Register, message: Write, worker: Any, queue: Any, apns: Apns
) -> None:
    row = register(Channel.APNS, "a1" * 32, device_key=device_key)
    queue.put(message(row))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = apns.received
    assert received.payload.keys() == {"aps", "clarion"}
    opened = json.loads(app(row.subscription_id, payload=received.payload))
    assert opened["aps"] == {"alert": {"title": TITLE}, "mutable-content": 1}
    assert opened["statement"]["data"] == DATA


def test_an_android_phone_opens_what_google_gets_sealed(
    app: Callable[..., str],
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
    opened = json.loads(app(row.subscription_id, payload=data))
    assert (opened["statement_data"], opened["notify_type"]) == (DATA, "alert")


def test_the_code_of_a_verification_is_for_the_app_alone(
    app: Callable[..., str], device_key: bytes, register: Register, message: Write, worker: Any, queue: Any, apns: Apns
) -> None:
    receipt = uuid4()
    row = register(Channel.APNS, "a1" * 32, device_key=device_key, status="pending", proof_receipt=str(receipt))
    body = VerificationBody(code="c" * 43)
    queue.put(message(row, purpose=Purpose.VERIFICATION, receipt=receipt, wanted=Wanted.BACKGROUND, body=body))
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    [received] = apns.received
    assert "c" * 43 not in json.dumps(received.payload)
    opened = json.loads(app(row.subscription_id, payload=received.payload))
    assert opened["clarion"] == {"purpose": "verification", "subscription_id": row.subscription_id, "code": "c" * 43}
