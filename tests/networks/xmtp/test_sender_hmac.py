import hmac
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.xmtp import sender_hmac as sender_hmac_module
from clarion.networks.xmtp.decision import decide_message
from clarion.networks.xmtp.envelope import PushMetadata, TopicMessage, decode
from clarion.networks.xmtp.sender_hmac import (
    KEY_SIZE_V3,
    PERIOD_S,
    period_at,
    sender_hmac,
    sender_hmac_key_v2,
    sender_hmac_key_v3,
    verify,
)
from clarion.networks.xmtp.topics import group_topic

type Vector = Mapping[str, Any]

periods = st.integers(0, 2**62)


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def test_v2_keys_and_hmacs_are_those_of_the_sdk(derived_v2: Vector) -> None:
    key = sender_hmac_key_v2(unhex(derived_v2["key_material"]), derived_v2["period"], derived_v2["address"])
    assert key.hex() == derived_v2["hmac_key"]
    for mac in derived_v2["macs"]:
        assert sender_hmac(key, unhex(mac["header_bytes"])).hex() == mac["sender_hmac"]


def test_v2_keys_of_the_keystore_come_from_the_conversation(vectors: Vector, sent_v2: Vector) -> None:
    material = unhex(vectors["v2"]["conversation"]["key_material"])
    keys = {one["thirty_day_periods_since_epoch"]: one["key"] for one in sent_v2["hmac_keys_of_sender"]}
    for period, key in keys.items():
        assert sender_hmac_key_v2(material, period, sent_v2["sender_address"]).hex() == key
    made = sender_hmac(unhex(keys[sent_v2["period"]]), unhex(sent_v2["header_bytes"]))
    assert made.hex() == sent_v2["sender_hmac"]


def test_v3_keys_are_those_of_the_sdk(derived_v3: Vector) -> None:
    key = sender_hmac_key_v3(unhex(derived_v3["root"]), unhex(derived_v3["group_id"]), derived_v3["period"])
    assert key.hex() == derived_v3["key"]


def test_v3_hmacs_hold_under_their_senders_key_and_no_other(vectors: Vector, sent_v3: Vector) -> None:
    metadata = decode(unhex(sent_v3["envelope"])).push_metadata
    if sent_v3["message_type"] == "v3-welcome":
        assert metadata is None
        return
    assert metadata is not None
    holding = {
        client
        for run in vectors["v3"]["runs"]
        for conversation in run["conversations"]
        if conversation["topic"] == sent_v3["content_topic"]
        for client, keys in conversation["hmac_keys"].items()
        for key in keys
        if verify(unhex(key["key"]), metadata.covered, metadata.sender_hmac)
    }
    assert holding == {sent_v3["sender"]}


@given(
    material=st.binary(min_size=32, max_size=32),
    period=periods,
    address=st.text(st.characters(codec="utf-8"), max_size=60),
)
def test_v2_derives_as_another_hkdf_does(material: bytes, period: int, address: str) -> None:
    oracle = HKDF(SHA256(), 32, None, f"{period}-{address}".encode())
    assert sender_hmac_key_v2(material, period, address) == oracle.derive(material)


@given(root=st.binary(min_size=42, max_size=42), group_id=st.binary(max_size=80), period=periods)
def test_v3_derives_as_another_hkdf_does(root: bytes, group_id: bytes, period: int) -> None:
    oracle = HKDF(SHA256(), 42, b"libXMTP HKDF salt!", group_id + period.to_bytes(8, "little"))
    assert sender_hmac_key_v3(root, group_id, period) == oracle.derive(root + group_id)


@pytest.mark.parametrize("size", [0, 31, 33, 42])
def test_key_material_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        sender_hmac_key_v2(bytes(size), 1, "0x")


@pytest.mark.parametrize("size", [0, 32, 41, 43])
def test_a_root_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="42 bytes"):
        sender_hmac_key_v3(bytes(size), b"group", 1)


def test_a_period_is_thirty_days() -> None:
    assert [period_at(0), period_at(PERIOD_S - 1), period_at(PERIOD_S), period_at(1_709_251_200)] == [0, 0, 1, 659]


class Digest(bytes):
    """Compared only by what takes the same time whatever its bytes."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared in a time that depends on its bytes")

    __hash__ = bytes.__hash__


def test_digests_are_compared_in_constant_time_for_every_key_that_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare_digest(made: bytes, claimed: bytes) -> bool:
        compared.append((made, bytes(claimed)))
        return hmac.compare_digest(made, claimed)

    monkeypatch.setattr(sender_hmac_module, "hmac", SimpleNamespace(compare_digest=compare_digest))
    keys = {period: bytes([period]) * KEY_SIZE_V3 for period in (6, 7, 8)}
    claimed = sender_hmac(bytes(KEY_SIZE_V3), b"data")
    message = TopicMessage(group_topic(b"group"), 7 * PERIOD_S * 1_000_000_000, b"")
    metadata = PushMetadata(b"data", Digest(claimed), KEY_SIZE_V3, should_push=True)
    monkeypatch.setitem(vars(message), "push_metadata", metadata)

    assert decide_message(message, keys).reason == "should_push"

    assert compared == [(sender_hmac(keys[period], b"data"), claimed) for period in (7, 6, 8)]


def test_an_hmac_of_another_length_does_not_hold() -> None:
    key, covered = bytes(42), b"data"
    made = sender_hmac(key, covered)
    assert verify(key, covered, made)
    assert not any(verify(key, covered, made[:size]) for size in range(32))
    assert not verify(key, covered, made + b"\0")
