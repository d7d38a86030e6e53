import json
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.channels import CHANNELS, Channel
from clarion.decisions import Wanted
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS, FcmMessage, Payload, Receiver
from clarion.networks.statements import payload
from clarion.networks.statements.payload import MAX_DATA_SIZE, StatementBody
from clarion.settings import TITLE

SENDER, TOPIC = bytes.fromhex("ab12cd34" * 8), bytes.fromhex("e5f6a7b8" * 8)
HASH = bytes.fromhex("c0ffee00" * 8)
SENDER_HEX, TOPIC_HEX, HASH_HEX = SENDER.hex(), TOPIC.hex(), HASH.hex()


def push(data: bytes | None = None, *, truncated: bool = False, wanted: Wanted = Wanted.ALERT) -> PushMessage:
    return PushMessage(
        network=STATEMENTS,
        receipt=UUID(int=1),
        observed_at=1_700_000_000_000,
        envelope_id=HASH,
        subscription_id=UUID(int=2),
        client_id=bytes(32),
        channel=Channel.APNS,
        wanted=wanted,
        expires_at=1_800_000_000,
        body=StatementBody(sender=SENDER, topic=TOPIC, data=data, truncated=truncated),
    )


def receiver(channel: Channel, title: str = TITLE) -> Receiver:
    return Receiver(title, CHANNELS[channel].payload_bytes)


def apns(message: PushMessage, *, title: str = TITLE) -> Payload[bytes]:
    return payload.apns(message, receiver(Channel.APNS, title))


def voip(message: PushMessage) -> Payload[bytes]:
    return payload.voip(message, receiver(Channel.VOIP))


def fcm(message: PushMessage) -> Payload[FcmMessage]:
    return payload.fcm(message, receiver(Channel.FCM))


def webpush(message: PushMessage, *, title: str = TITLE) -> Payload[bytes]:
    return payload.webpush(message, receiver(Channel.WEBPUSH, title))


def test_an_alert_is_as_the_product_document_shows() -> None:
    body, truncated, *_ = apns(push(data=b"\xca\xfe"))
    assert not truncated
    assert json.loads(body) == {
        "aps": {"alert": {"title": "Polkadot App"}, "mutable-content": 1},
        "statement": {"data": "cafe", "topic": TOPIC_HEX, "sender_pubkey": SENDER_HEX},
    }


def test_a_truncated_alert_is_as_the_product_document_shows() -> None:
    body, truncated, *_ = apns(push(truncated=True))
    assert truncated
    assert json.loads(body) == {
        "aps": {"alert": {"title": "Polkadot App"}, "mutable-content": 1, "content-available": 1},
        "statement": {"data": None, "topic": TOPIC_HEX, "sender_pubkey": SENDER_HEX, "hash": HASH_HEX},
    }


def test_a_push_to_a_browser_has_a_title_and_the_statement() -> None:
    statement = {"topic": TOPIC_HEX, "sender_pubkey": SENDER_HEX}
    whole = json.loads(webpush(push(data=b"\xca\xfe")).body)
    assert whole == {"title": "Polkadot App", "statement": {"data": "cafe", **statement}}
    truncated = json.loads(webpush(push(truncated=True)).body)
    assert truncated == {"title": "Polkadot App", "statement": {"data": None, **statement, "hash": HASH_HEX}}


def test_a_call_is_as_the_product_document_shows() -> None:
    statement = {"topic": TOPIC_HEX, "sender_pubkey": SENDER_HEX}
    assert json.loads(voip(push(data=b"\xca\xfe")).body) == {"aps": {}, "statement": {"data": "cafe", **statement}}
    truncated = {"data": None, **statement, "hash": HASH_HEX}
    assert json.loads(voip(push(truncated=True)).body) == {"aps": {}, "statement": truncated}


def test_an_android_message_is_as_the_product_document_shows() -> None:
    assert fcm(push(data=b"\xca\xfe")) == Payload(
        {
            "data": {
                "statement_data": "cafe",
                "statement_topic": TOPIC_HEX,
                "sender_pubkey": SENDER_HEX,
                "notify_type": "alert",
            },
            "android": {"priority": "high"},
        },
        truncated=False,
    )


def test_a_truncated_android_message_lacks_the_data() -> None:
    body, truncated, *_ = fcm(push(truncated=True))
    assert truncated
    assert body["data"] == {
        "statement_topic": TOPIC_HEX,
        "sender_pubkey": SENDER_HEX,
        "notify_type": "alert",
        "hash": HASH_HEX,
    }


def test_an_android_call_says_so() -> None:
    assert fcm(push(data=b"", wanted=Wanted.CALL)).body["data"]["notify_type"] == "voip"


def test_a_statement_without_data_is_nothing_to_fetch() -> None:
    for build in (apns, voip):
        body, truncated, *_ = build(push())
        assert not truncated
        assert json.loads(body)["statement"]["data"] == ""
        assert b"content-available" not in body
    assert fcm(push()).body["data"]["statement_data"] == ""


def test_apple_bodies_are_compact_json() -> None:
    for body in (apns(push(data=b"x")).body, voip(push(data=b"x")).body):
        assert body == json.dumps(json.loads(body), separators=(",", ":")).encode()


@pytest.mark.parametrize("title", ['Say "hi"\\', "Приложение 📣", ""])
def test_any_title_is_carried_unchanged(title: str) -> None:
    for message in (push(data=b"x"), push(truncated=True)):
        assert json.loads(webpush(message, title=title).body)["title"] == title
        assert json.loads(apns(message, title=title).body)["aps"]["alert"]["title"] == title


def byte_size(body: bytes) -> int:
    return len(body)


def fcm_size(body: FcmMessage) -> int:
    return sum(len(text.encode()) for item in body["data"].items() for text in item)


# Hex grows by two bytes at a time: a title or a notify_type that is one byte longer makes up for the odd sizes.
# The parts of a VoIP payload are all even, so its nearest sizes are two bytes away.
CALL = Wanted.CALL
LIMITS = [
    pytest.param(partial(apns, title="Polkadot Ap"), byte_size, push(data=bytes(1926)), 4095, id="apns-below"),
    pytest.param(partial(apns, title="Polkadot App"), byte_size, push(data=bytes(1926)), 4096, id="apns-at"),
    pytest.param(partial(apns, title="Polkadot Apps"), byte_size, push(data=bytes(1926)), None, id="apns-above"),
    pytest.param(voip, byte_size, push(data=bytes(2463)), 5118, id="voip-below"),
    pytest.param(voip, byte_size, push(data=bytes(2464)), 5120, id="voip-at"),
    pytest.param(voip, byte_size, push(data=bytes(2465)), None, id="voip-above"),
    pytest.param(partial(webpush, title="Polkadot App"), byte_size, push(data=bytes(1893)), 3992, id="webpush-below"),
    pytest.param(partial(webpush, title="Polkadot Apps"), byte_size, push(data=bytes(1893)), 3993, id="webpush-at"),
    pytest.param(partial(webpush, title="Polkadot App"), byte_size, push(data=bytes(1894)), None, id="webpush-above"),
    pytest.param(fcm, fcm_size, push(data=bytes(1955), wanted=CALL), 4095, id="fcm-below"),
    pytest.param(fcm, fcm_size, push(data=bytes(1955)), 4096, id="fcm-at"),
    pytest.param(fcm, fcm_size, push(data=bytes(1956), wanted=CALL), None, id="fcm-above"),
]


@pytest.mark.parametrize(("build", "size_of", "message", "size"), LIMITS)
def test_a_payload_is_whole_up_to_its_limit_and_truncated_from_one_byte_above(
    build: Callable[[PushMessage], Payload[Any]],
    size_of: Callable[[Any], int],
    message: PushMessage,
    size: int | None,
) -> None:
    body, truncated, *_ = build(message)
    if size is None:
        without_data = StatementBody(sender=SENDER, topic=TOPIC, truncated=True)
        assert Payload(body, truncated) == build(message.model_copy(update={"body": without_data}))
        assert size_of(body) < 400
    else:
        assert (size_of(body), truncated) == (size, False)


@given(
    data=st.binary(max_size=100) | st.integers(1900, 3000).map(bytes),
    title=st.text(max_size=200) | st.just("\x00" * 200),
)
def test_no_payload_exceeds_its_limit_and_none_is_truncated_that_fits(data: bytes, title: str) -> None:
    message, statement = push(data=data), {"data": data.hex(), "topic": TOPIC_HEX, "sender_pubkey": SENDER_HEX}
    alert = {"aps": {"alert": {"title": title}, "mutable-content": 1}, "statement": statement}
    for (body, truncated, *_), whole, channel in (
        (apns(message, title=title), alert, Channel.APNS),
        (voip(message), {"aps": {}, "statement": statement}, Channel.VOIP),
        (webpush(message, title=title), {"title": title, "statement": statement}, Channel.WEBPUSH),
    ):
        limit = CHANNELS[channel].payload_bytes
        expected = json.dumps(whole, separators=(",", ":"), ensure_ascii=False).encode()
        assert truncated == (len(expected) > limit)
        assert len(body) <= limit
        assert truncated or body == expected
    message_body, truncated, *_ = fcm(message)
    assert fcm_size(message_body) <= CHANNELS[Channel.FCM].payload_bytes
    assert truncated == (fcm_size(fcm(push(data=b"")).body) + 2 * len(data) > CHANNELS[Channel.FCM].payload_bytes)


def test_data_beyond_the_largest_size_fits_no_channel() -> None:
    message = push(data=bytes(MAX_DATA_SIZE + 1))
    assert all(build(message).truncated for build in (apns, voip, fcm, webpush))
