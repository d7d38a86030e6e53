import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from clarion.channels import CHANNELS, Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import Payload, Receiver
from clarion.networks.zulip.network import NETWORK
from clarion.networks.zulip.payload import (
    KEPT_S,
    ApnsBody,
    Aps,
    ApsAlert,
    Body,
    Content,
    FcmBody,
    ProposedContent,
    ShippedContent,
    fits,
    push_of,
)

NOTIFICATIONS = json.loads((Path(__file__).parents[2] / "data" / "zulip.json").read_text())["notifications"]
NOW = 1_700_000_000_000
DEVICE, SERVER = str(UUID(int=7)), UUID(int=8).bytes
SHIPPED = ShippedContent(push_key_id=2408, encrypted_data="c2VhbGVk")
PROPOSED = ProposedContent(push_account_id=-5, encrypted_content="c2VhbGVk")
ALERT_APS = {"mutable-content": 1, "alert": {"title": "New notification"}, "sound": "default"}

sealed = st.binary(min_size=1).map(lambda raw: b64encode(raw).decode())
contents = st.one_of(
    st.builds(ShippedContent, push_key_id=st.integers(0, 2**32 - 1), encrypted_data=sealed),
    st.builds(
        ProposedContent,
        push_account_id=st.integers(-(1 << 63), (1 << 64) - 1),
        encrypted_content=sealed,
    ),
)
bodies = st.one_of(st.builds(ApnsBody, content=contents), st.builds(FcmBody, content=contents))


def body_of(request: dict[str, Any]) -> Body:
    """Of a push request as Zulip 12 sends it."""
    content = {name: value for name, value in request["payload"].items() if name != "aps"}
    if "fcm_priority" in request:
        return FcmBody.model_validate({"content": content, "priority": request["fcm_priority"]})
    headers = {name.removeprefix("apns_"): value for name, value in request["http_headers"].items()}
    return ApnsBody.model_validate({"content": content, "aps": request["payload"]["aps"], **headers})


def push(body: Body, device: str = DEVICE) -> PushMessage:
    return push_of(device, SERVER, body, NOW)


def payload_of(message: PushMessage, payload_bytes: int = 4096) -> Payload[Any]:
    return NETWORK.payload(message.channel, message, Receiver("A title", payload_bytes))


def sent(body: Body) -> Any:
    """What the provider reads, after the body's way through the queue."""
    message = PushMessage.model_validate_json(push(body).to_json())
    composed = payload_of(message).body
    return composed if message.channel is Channel.FCM else json.loads(composed)


@pytest.mark.parametrize("vector", NOTIFICATIONS)
def test_what_zulip_12_asks_for_is_sent_as_it_came(vector: dict[str, Any]) -> None:
    apns, fcm = vector["apns_push_request"], vector["fcm_push_request"]
    assert sent(body_of(apns)) == apns["payload"]
    assert sent(body_of(fcm)) == {
        "data": vector["fcm_message_data"],
        "android": {"priority": fcm["fcm_priority"]},
    }


@pytest.mark.parametrize("vector", NOTIFICATIONS)
def test_push_type_and_priority_are_those_that_were_asked_for(vector: dict[str, Any]) -> None:
    headers = vector["apns_push_request"]["http_headers"]
    message = push(body_of(vector["apns_push_request"]))
    assert message.wanted is Wanted(headers["apns_push_type"])
    assert payload_of(message).priority == headers["apns_priority"]


def test_the_proposals_content_is_an_alert_beside_its_account() -> None:
    content = {"push_account_id": -5, "encrypted_content": "c2VhbGVk"}
    assert sent(ApnsBody(content=PROPOSED)) == {**content, "aps": ALERT_APS}
    assert sent(FcmBody(content=PROPOSED)) == {
        "data": {**content, "push_account_id": "-5"},
        "android": {"priority": "high"},
    }


@pytest.mark.parametrize("content", [SHIPPED, PROPOSED])
def test_the_same_content_for_the_same_device_is_the_same_push(content: Content) -> None:
    first, again = push(ApnsBody(content=content)), push_of(DEVICE, SERVER, ApnsBody(content=content), NOW + 1)
    named = [(message.receipt, message.envelope_id) for message in (first, again)]
    assert named[0] == named[1]
    elsewhere = push(ApnsBody(content=content), str(UUID(int=9)))
    assert elsewhere.receipt != first.receipt


def test_a_push_is_direct_and_of_use_for_four_weeks() -> None:
    message = push(FcmBody(content=SHIPPED))
    assert (message.purpose, message.channel, message.wanted) == (Purpose.DIRECT, Channel.FCM, Wanted.ALERT)
    assert (message.client_id, message.expires_at) == (SERVER, NOW // 1000 + KEPT_S)


@given(bodies)
def test_whatever_is_sealed_survives_its_way_through_the_queue(body: Body) -> None:
    message = push(body)
    assert PushMessage.model_validate_json(message.to_json()) == message


@pytest.mark.parametrize("channel", [Channel.APNS, Channel.FCM])
def test_a_body_fits_up_to_the_last_byte_of_its_channel(channel: Channel) -> None:
    limit = CHANNELS[channel].payload_bytes

    def of_length(length: int) -> Body:
        content = ShippedContent(push_key_id=1, encrypted_data="A" * length)
        return ApnsBody(content=content) if channel is Channel.APNS else FcmBody(content=content)

    most = max(length for length in range(1, limit) if fits(channel, of_length(length)))
    composed = payload_of(push(of_length(most))).body
    assert _size(composed) == limit
    with pytest.raises(ValueError, match="bytes"):
        payload_of(push(of_length(most + 1)))


def _size(composed: Any) -> int:
    if isinstance(composed, bytes):
        return len(composed)
    return sum(len(part.encode()) for pair in composed["data"].items() for part in pair)


@pytest.mark.parametrize(
    ("channel", "body"),
    [
        (Channel.FCM, ApnsBody(content=SHIPPED)),
        (Channel.APNS, FcmBody(content=SHIPPED)),
        (Channel.VOIP, ApnsBody(content=SHIPPED)),
        (Channel.WEBPUSH, FcmBody(content=SHIPPED)),
    ],
)
def test_a_body_fits_no_other_channel(channel: Channel, body: Body) -> None:
    assert not fits(channel, body)


@pytest.mark.parametrize(
    "aps",
    [
        {},
        {"alert": {"title": "New notification"}},
        {"mutable-content": 0},
        {"mutable-content": 1, "alert": {"title": "Ann: see you at nine"}},
        {"mutable-content": 1, "alert": {"title": "New notification", "body": "see you at nine"}},
        {"mutable-content": 1, "alert": "New notification"},
        {"mutable-content": 1, "sound": "loud.caf"},
        {"mutable-content": 1, "badge": 3},
    ],
)
def test_a_phone_shows_nothing_by_itself_but_the_fixed_title(aps: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Aps.model_validate(aps)


@pytest.mark.parametrize(
    "changes",
    [
        {"content": {"push_key_id": -1, "encrypted_data": "c2VhbGVk"}},
        {"content": {"push_key_id": 2**32, "encrypted_data": "c2VhbGVk"}},
        {"content": {"push_key_id": 1, "encrypted_data": ""}},
        {"content": {"push_key_id": 1, "encrypted_data": "c2VhbGVk\uffff"}},
        {"content": {"push_key_id": 1, "encrypted_data": "c2VhbGVk\n"}},
        {"content": {"push_account_id": 1, "encrypted_content": "c2Vh bGVk"}},
        {"content": {"push_key_id": 1, "encrypted_content": "c2VhbGVk"}},
        {"content": {"push_account_id": 1 << 64, "encrypted_content": "c2VhbGVk"}},
        {"content": {"push_account_id": -(1 << 63) - 1, "encrypted_content": "c2VhbGVk"}},
        {"content": {**SHIPPED.model_dump(), **PROPOSED.model_dump()}},
        {"priority": 7},
        {"push_type": "voip"},
        {"push_type": "background", "priority": 10},
    ],
)
def test_what_neither_profile_nor_apple_has_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        ApnsBody.model_validate({"content": SHIPPED, **changes})
    assert "c2VhbGVk" not in str(refused.value)


@pytest.mark.parametrize("body", [ApnsBody(content=SHIPPED), FcmBody(content=PROPOSED)])
def test_the_sealed_content_is_never_shown(body: Body) -> None:
    assert "c2VhbGVk" not in repr(push(body))


def test_another_networks_push_is_none_of_its_own() -> None:
    with pytest.raises(TypeError):
        payload_of(push(ApnsBody(content=SHIPPED)).model_copy(update={"body": SHIPPED}))


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        (ShippedContent, SHIPPED.model_dump()),
        (ProposedContent, PROPOSED.model_dump()),
        (Aps, ALERT_APS),
        (ApsAlert, ALERT_APS["alert"]),
    ],
)
@pytest.mark.parametrize("known_first", [True, False])
def test_of_endless_unknown_members_few_are_named(
    kind: type[BaseModel], known: dict[str, Any], *, known_first: bool
) -> None:
    unknown = {f"member{number}": 1 for number in range(10_000)}
    with pytest.raises(ValidationError) as refused:
        kind.model_validate(known | unknown if known_first else unknown | known)
    assert refused.value.error_count() < 10
