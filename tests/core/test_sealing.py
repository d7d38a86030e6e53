"""Sealed pushes against RFC 9180, as it is implemented for tests alone and checked by the RFC's own vectors."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from clarion import base64url, own_pushes, sealing
from clarion.channels import CHANNELS, Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS, XMTP, FcmMessage, Payload, Receiver, network
from clarion.networks.statements.payload import StatementBody
from clarion.networks.xmtp.envelope import TopicMessage
from clarion.networks.xmtp.payload import ADDED_BY_FCM, TopicBody, body_of
from clarion.own_pushes import MaskedCode, VerificationBody
from clarion.settings import TITLE
from tests import hpke
from tests.xmtp import TOPIC

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "hpke.json").read_text())
SUBSCRIPTION = UUID(int=7)
PHONE = X25519PrivateKey.from_private_bytes(bytes(range(32)))
DEVICE_KEY = PHONE.public_key().public_bytes_raw()
STATEMENT_CHANNELS, XMTP_CHANNELS = [
    [channel for channel in network(name).channels if channel is not Channel.WEBHOOK] for name in (STATEMENTS, XMTP)
]
ORDER = 2**255 - 19
LOW_ORDER = [
    number.to_bytes(32, "little")
    for number in (
        0,
        1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
        ORDER - 1,
        ORDER,
        ORDER + 1,
    )
]
"""https://cr.yp.to/ecdh.html#validate"""

titles = st.text(min_size=1, max_size=200)


def vector(name: str) -> bytes:
    return bytes.fromhex(VECTORS[name])


# ---- the RFC --------------------------------------------------------------------------------------------------------


def test_the_keys_are_those_of_the_rfc() -> None:
    ephemeral, recipient = (X25519PrivateKey.from_private_bytes(vector(name)) for name in ("skEm", "skRm"))
    assert hpke.decap(vector("enc"), recipient) == vector("shared_secret")
    assert hpke.encap(ephemeral, X25519PublicKey.from_public_bytes(vector("pkRm"))) == vector("shared_secret")
    assert hpke.key_schedule(vector("shared_secret"), vector("info")) == (vector("key"), vector("base_nonce"))


@pytest.mark.parametrize("sealed", VECTORS["encryptions"], ids=lambda one: str(one["sequence_number"]))
def test_the_ciphertexts_are_those_of_the_rfc(sealed: dict[str, Any]) -> None:
    context = hpke.Context(vector("key"), vector("base_nonce"))
    plaintext, aad, nonce, ciphertext = (bytes.fromhex(sealed[name]) for name in ("pt", "aad", "nonce", "ct"))
    assert context.nonce(sealed["sequence_number"]) == nonce
    assert context.seal(plaintext, aad, sealed["sequence_number"]) == ciphertext
    assert context.open(ciphertext, aad, sealed["sequence_number"]) == plaintext


def test_the_suite_that_seals_opens_what_the_rfc_seals() -> None:
    context = hpke.key_schedule(vector("shared_secret"), vector("info"))
    recipient = X25519PrivateKey.from_private_bytes(vector("skRm"))
    assert sealing.SUITE.decrypt(vector("enc") + context.seal(b"hello"), recipient, vector("info")) == b"hello"


# ---- a payload ------------------------------------------------------------------------------------------------------


def push_of(channel: Channel, body: StatementBody | TopicBody | MaskedCode, **others: Any) -> PushMessage:
    return PushMessage(
        network=XMTP if isinstance(body, TopicBody) else STATEMENTS,
        receipt=UUID(int=1),
        observed_at=0,
        envelope_id=b"i" * 32,
        subscription_id=SUBSCRIPTION,
        client_id=b"a client",
        channel=channel,
        expires_at=0,
        body=body,
        **others,
    )


def verification(channel: Channel, code: str) -> PushMessage:
    masked = push_of(channel, MaskedCode(masked=""), purpose=Purpose.VERIFICATION)
    return masked.model_copy(update={"body": VerificationBody(code=code)})


def statement(channel: Channel, size: int, wanted: Wanted = Wanted.ALERT) -> PushMessage:
    return push_of(channel, StatementBody(sender=b"s" * 32, topic=b"t" * 32, data=bytes(size)), wanted=wanted)


def message(channel: Channel, size: int, topic: str = TOPIC, wanted: Wanted = Wanted.ALERT) -> PushMessage:
    return push_of(channel, body_of(TopicMessage(topic, 0, bytes(size)), channel), wanted=wanted)


def composed(push: PushMessage, title: str = TITLE) -> Payload[bytes] | Payload[FcmMessage]:
    """As it is to be sealed."""
    receiver = Receiver(title, sealing.payload_bytes(push.channel, title))
    return network(push.network).payload(push.channel, push, receiver)


def seal(payload: Payload[bytes] | Payload[FcmMessage]) -> Any:
    return sealing.seal(payload, DEVICE_KEY, SUBSCRIPTION).body


def envelope(sealed: Any) -> dict[str, Any]:
    """What takes the place of the content."""
    found: dict[str, Any] = (
        json.loads(sealed)["clarion"] if isinstance(sealed, bytes) else json.loads(sealed["data"]["clarion"])
    )
    return found


def plaintext(sealed: Any) -> bytes:
    raw = base64url.decode(envelope(sealed)["sealed"])
    return hpke.open_single(raw, PHONE, b"clarion push v1" + str(SUBSCRIPTION).encode())


def opened(sealed: Any) -> Any:
    """What the phone has in the end, in the shape of an unsealed payload."""
    content = json.loads(plaintext(sealed))
    if isinstance(sealed, bytes):
        return {name: value for name, value in json.loads(sealed).items() if name != "clarion"} | content
    return {**sealed, "data": content}


def clear(payload: Payload[bytes] | Payload[FcmMessage]) -> Any:
    return json.loads(payload.body) if isinstance(payload.body, bytes) else payload.body


def fits(channel: Channel, sealed: Any) -> bool:
    """FCM hands its data on to APNs, with keys of its own, if an iPhone is behind it."""
    limit = CHANNELS[channel].payload_bytes
    if isinstance(sealed, bytes):
        return len(sealed) <= limit
    counted = sum(len(part.encode()) for pair in sealed["data"].items() for part in pair)
    by_apns = json.dumps({"aps": {"mutable-content": 1}, **sealed["data"]}, ensure_ascii=False, separators=(",", ":"))
    return counted <= limit and len(by_apns.encode()) + ADDED_BY_FCM <= CHANNELS[Channel.APNS].payload_bytes


@pytest.mark.parametrize("channel", STATEMENT_CHANNELS)
@given(
    size=st.integers(0, 2600), title=titles | st.just("\x00" * 200), wanted=st.sampled_from([Wanted.ALERT, Wanted.CALL])
)
def test_a_sealed_statement_of_any_size_fits_its_channel_and_opens_to_its_payload(
    channel: Channel, size: int, title: str, wanted: Wanted
) -> None:
    payload = composed(statement(channel, size, wanted), title)
    sealed = seal(payload)
    assert fits(channel, sealed)
    assert opened(sealed) == clear(payload)


@pytest.mark.parametrize("channel", XMTP_CHANNELS)
@given(
    size=st.integers(0, 3100),
    topic=st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=128),
    wanted=st.sampled_from([Wanted.ALERT, Wanted.BACKGROUND]),
)
def test_a_sealed_message_of_any_size_fits_its_channel_and_opens_to_its_payload(
    channel: Channel, size: int, topic: str, wanted: Wanted
) -> None:
    payload = composed(message(channel, size, topic, wanted))
    sealed = seal(payload)
    assert fits(channel, sealed)
    assert opened(sealed) == clear(payload)


@pytest.mark.parametrize("channel", own_pushes.CHANNELS)
def test_clarions_own_pushes_are_sealed_as_well(channel: Channel) -> None:
    payload = own_pushes.compose(channel, verification(channel, "c" * 43))
    sealed = seal(payload)
    assert "c" * 43 not in str(sealed)
    assert opened(sealed) == clear(payload)


def test_only_what_the_channel_needs_stays_clear() -> None:
    aps = {"alert": {"title": TITLE}, "mutable-content": 1}
    alert, call, page = (
        json.loads(seal(composed(statement(channel, 3)))) for channel in (Channel.APNS, Channel.VOIP, Channel.WEBPUSH)
    )
    assert alert == {"aps": aps, "clarion": {"v": 1, "sealed": alert["clarion"]["sealed"]}}
    assert call == {"aps": {}, "clarion": {"v": 1, "sealed": call["clarion"]["sealed"]}}
    assert page == {"title": TITLE, "clarion": {"v": 1, "sealed": page["clarion"]["sealed"]}}
    android = seal(composed(statement(Channel.FCM, 3)))
    assert (android["data"].keys(), android["android"]) == ({"clarion"}, {"priority": "high"})
    assert envelope(android).keys() == {"v", "sealed"}


@pytest.mark.parametrize("channel", STATEMENT_CHANNELS)
def test_all_contents_of_one_bucket_are_of_one_length(channel: Channel) -> None:
    lengths: dict[int, set[int]] = {}
    for size in range(0, 1200, 7):
        sealed = seal(composed(statement(channel, size)))
        padded = plaintext(sealed)
        assert len(padded) % 512 == 0
        assert len(padded) - len(padded.rstrip(b" ")) < 512
        lengths.setdefault(len(padded), set()).add(len(envelope(sealed)["sealed"]))
    assert len(lengths) > 3
    assert all(len(found) == 1 for found in lengths.values())


def test_the_same_push_is_never_sealed_to_the_same_text_twice() -> None:
    payload = composed(statement(Channel.APNS, 3))
    assert len({seal(payload) for _ in range(20)}) == 20


def test_nobody_else_opens_it_nor_does_it_open_for_another_subscription() -> None:
    raw = base64url.decode(envelope(seal(composed(statement(Channel.APNS, 3))))["sealed"])
    for key, subscription in ((X25519PrivateKey.generate(), SUBSCRIPTION), (PHONE, UUID(int=8))):
        with pytest.raises(InvalidTag):
            hpke.open_single(raw, key, sealing.info(subscription))


# ---- a device key ---------------------------------------------------------------------------------------------------


def test_a_device_key_is_the_raw_public_key() -> None:
    assert sealing.parse_device_key(base64url.encode(DEVICE_KEY)) == DEVICE_KEY


@pytest.mark.parametrize("raw", LOW_ORDER, ids=bytes.hex)
def test_a_point_of_low_order_is_no_device_key(raw: bytes) -> None:
    with pytest.raises(ValueError, match="low order"):
        sealing.parse_device_key(base64url.encode(raw))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(base64url.encode(DEVICE_KEY[:31]), id="31 bytes"),
        pytest.param(base64url.encode(DEVICE_KEY + b"x"), id="33 bytes"),
        pytest.param(base64url.encode(DEVICE_KEY) + "=", id="padded"),
        pytest.param("+" * 43, id="base64 of the other alphabet"),
        pytest.param("é" * 43, id="no base64"),
    ],
)
def test_what_is_no_key_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"32 bytes|not base64url") as refusal:
        sealing.parse_device_key(text)
    assert not text or text not in str(refusal.value)
