import json
from base64 import b64decode, b64encode
from functools import partial
from hashlib import sha1
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.channels import CHANNELS, Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import FcmMessage, Payload, Receiver
from clarion.networks.xmtp import decode, payload
from clarion.networks.xmtp.envelope import TopicMessage
from clarion.networks.xmtp.network import NETWORK
from clarion.networks.xmtp.payload import TopicBody, refresh_body
from clarion.networks.xmtp.topics import MAX_TOPIC_SIZE
from tests.xmtp import TOPIC, WELCOMES, Inbox

type Vector = Any

AT = 1_795_186_611
BEGAN_AT = 1_763_812_800_012
"""UNIX milliseconds."""
JSON_CHANNELS = (Channel.APNS, Channel.WEBHOOK)
any_topic = st.text(min_size=1).filter(lambda topic: len(topic.encode()) <= MAX_TOPIC_SIZE)


body_of = partial(payload.body_of, channel=Channel.WEBHOOK)
"""With all that any channel has space for."""
SIZES = st.integers(0, 3_100) | st.integers(45_000, CHANNELS[Channel.WEBHOOK].payload_bytes * 3 // 4 + 10)


def push_of(
    body: TopicBody, wanted: Wanted = Wanted.ALERT, channel: Channel = Channel.APNS, **others: Any
) -> PushMessage:
    return PushMessage(
        network="xmtp",
        receipt=UUID(int=1),
        observed_at=1,
        envelope_id=b"i" * 32,
        subscription_id=UUID(int=2),
        client_id=b"a client",
        channel=channel,
        wanted=wanted,
        expires_at=AT,
        body=body,
        **others,
    )


def refresh(channel: Channel = Channel.APNS) -> PushMessage:
    return push_of(refresh_body(), Wanted.BACKGROUND, channel, purpose=Purpose.REFRESH)


def made(channel: Channel, push: PushMessage) -> Payload[bytes] | Payload[FcmMessage]:
    return NETWORK.payload(channel, push, Receiver("A title", CHANNELS[channel].payload_bytes, BEGAN_AT))


def fcm(push: PushMessage) -> Payload[FcmMessage]:
    return payload.fcm(push, Receiver("A title", CHANNELS[Channel.FCM].payload_bytes))


def webhook(push: PushMessage) -> Payload[bytes]:
    return payload.webhook(push, Receiver("A title", CHANNELS[Channel.WEBHOOK].payload_bytes, BEGAN_AT))


def sent(channel: Channel, push: PushMessage) -> Any:
    """What the provider reads."""
    body: Any = made(channel, push).body
    return body if channel is Channel.FCM else json.loads(body)


@pytest.fixture
def payloads(vectors: Vector) -> Vector:
    return vectors["payloads"]


@pytest.fixture
def body(payloads: Vector) -> TopicBody:
    """Of the message that the vectors' payloads are of."""
    whole = payloads["http_webhook"]
    message = TopicMessage(TOPIC, whole["message"]["timestamp_ns"], b64decode(whole["message"]["message"]))
    topic = whole["message"]["content_topic"]
    return body_of(TopicMessage(topic, message.timestamp_ns, message.message))


@pytest.mark.parametrize(("name", "wanted"), [("alert", Wanted.ALERT), ("silent", Wanted.BACKGROUND)])
def test_apns_gets_what_the_reference_sends(payloads: Vector, body: TopicBody, name: str, wanted: Wanted) -> None:
    assert sent(Channel.APNS, push_of(body, wanted)) == payloads["apns"][name]


@pytest.mark.parametrize("wanted", [Wanted.ALERT, Wanted.BACKGROUND])
def test_fcm_gets_the_data_that_the_reference_sends(payloads: Vector, body: TopicBody, wanted: Wanted) -> None:
    assert sent(Channel.FCM, push_of(body, wanted))["data"] == payloads["fcm_message_data"]


def test_a_silent_push_is_of_low_priority_and_shows_nothing_wherever_fcm_takes_it(body: TopicBody) -> None:
    alert, silent = (fcm(push_of(body, wanted)).body for wanted in (Wanted.ALERT, Wanted.BACKGROUND))
    assert alert["android"] == {"priority": "high"}
    assert alert["apns"] == {"payload": {"aps": {"mutable-content": 1}}}
    assert alert["webpush"] == {"notification": {"title": "New message from XMTP"}}
    assert silent["android"] == {"priority": "normal"}
    assert silent["apns"] == {
        "headers": {"apns-push-type": "background", "apns-priority": "5"},
        "payload": {"aps": {"content-available": 1}},
    }
    assert "webpush" not in silent


def test_a_webhook_gets_all_of_the_reference_s_body_but_who_it_is_for(payloads: Vector, body: TopicBody) -> None:
    expected = {name: value for name, value in payloads["http_webhook"].items() if name != "installation"}
    expected["subscription"] |= {"created_at": "2025-11-22T12:00:00.012Z"}
    payload = webhook(push_of(body))
    assert (json.loads(payload.body), payload.truncated) == (expected, False)
    assert json.loads(webhook(push_of(body, Wanted.BACKGROUND)).body)["subscription"]["is_silent"]


def test_a_webhook_is_not_told_what_no_sender_said() -> None:
    payload = webhook(push_of(body_of(TopicMessage(WELCOMES, 1, b"welcome"))))
    assert json.loads(payload.body)["message_context"] == {"message_type": "v3-welcome"}


def test_what_does_not_fit_comes_without_its_message() -> None:
    found = sent(Channel.APNS, push_of(body_of(TopicMessage(TOPIC, 1, bytes(4096)))))
    assert "encryptedMessage" not in found
    assert (found["topic"], found["messageKind"], found["truncated"]) == (TOPIC, "v3-conversation", True)


def test_fcm_data_are_text_even_that_a_message_is_left_out() -> None:
    payload = fcm(push_of(body_of(TopicMessage(TOPIC, 1, bytes(4096)))))
    assert payload.truncated
    assert payload.body["data"] == {"topic": TOPIC, "messageType": "v3-conversation", "truncated": "true"}


@pytest.mark.parametrize("size", [46_060, 46_080, 46_081, 100_000], ids=lambda size: f"{size} bytes")
def test_a_webhook_knows_a_message_that_does_not_fit_by_all_of_its_bytes(size: int) -> None:
    payload = webhook(push_of(body_of(TopicMessage(TOPIC, 1, bytes(size)))))
    found = json.loads(payload.body)
    assert payload.truncated
    assert found["message"] == {"content_topic": TOPIC, "timestamp_ns": 1, "truncated": True}
    assert found["idempotency_key"] == sha1(TOPIC.encode() + bytes(size), usedforsecurity=False).hexdigest()


@given(topic=any_topic, size=SIZES, wanted=st.sampled_from([*Wanted][:3]))
def test_every_payload_fits_its_channel_and_is_whole_if_it_can_be(topic: str, size: int, wanted: Wanted) -> None:
    body = body_of(TopicMessage(topic, 2**64 - 1, bytes(size)))
    for channel in JSON_CHANNELS:
        payload = made(channel, push_of(body, wanted, channel))
        assert len(payload.body) <= CHANNELS[channel].payload_bytes
        text = payload.body.decode() if isinstance(payload.body, bytes) else ""
        assert ('"truncated":true' in text) is payload.truncated
        assert json.dumps(topic, ensure_ascii=False) in text
        smaller = body_of(TopicMessage(topic, 0, bytes(max(size - 1, 0))))
        if not payload.truncated:
            assert not made(channel, push_of(smaller, wanted, channel)).truncated


@given(topic=any_topic, size=st.integers(2_600, 3_100))
def test_fcm_counts_the_bytes_of_keys_and_values_and_what_an_iphone_gets_of_them(topic: str, size: int) -> None:
    body = body_of(TopicMessage(topic, 0, bytes(size)))
    payload = fcm(push_of(body))
    data = payload.body["data"]
    assert sum(len(part.encode()) for pair in data.items() for part in pair) <= 4096
    whole = {"topic": topic, "messageType": str(body.kind), "encryptedMessage": b64encode(bytes(size)).decode()}
    by_apns = json.dumps({"aps": {"mutable-content": 1}, **whole}, ensure_ascii=False, separators=(",", ":"))
    assert payload.truncated is (len(by_apns.encode()) + 200 > 4096)


@pytest.mark.parametrize("channel", [channel for channel in Channel if channel not in NETWORK.channels])
def test_it_serves_no_other_channel(channel: Channel) -> None:
    with pytest.raises(LookupError):
        made(channel, refresh())


def test_a_refresh_is_a_background_push_that_names_no_topic() -> None:
    assert sent(Channel.APNS, refresh()) == {"aps": {"content-available": 1}, "messageKind": "refresh-keys"}
    message = fcm(refresh(Channel.FCM)).body
    assert (message["data"], message["android"]) == ({"messageType": "refresh-keys"}, {"priority": "normal"})
    assert json.loads(webhook(refresh()).body) == {
        "idempotency_key": (b"i" * 32).hex(),
        "message_context": {"message_type": "refresh-keys"},
    }


@given(message=st.none() | st.binary(max_size=50), flag=st.none() | st.booleans(), at=st.integers(0, 2**64 - 1))
def test_a_push_comes_out_of_its_queue_as_it_went_in(message: bytes | None, at: int, *, flag: bool | None) -> None:
    push = push_of(TopicBody(topic=TOPIC, timestamp_ns=at, message=message, kind="v3-conversation", should_push=flag))
    assert PushMessage.model_validate_json(push.to_json()) == push


def test_the_message_stays_out_of_no_payload_by_mistake_of_its_queue() -> None:
    raw = Inbox(b"alix").message(AT)
    push = PushMessage.model_validate_json(push_of(body_of(decode(raw))).to_json())
    assert b64decode(sent(Channel.APNS, push)["encryptedMessage"]) == decode(raw).message
