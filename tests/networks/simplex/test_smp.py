import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import PrivateKey

from clarion.networks.simplex.blocks import SMP_BLOCK_BYTES, batch_blocks
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.items import MessageArrived
from clarion.networks.simplex.smp import SmpSignal, SmpTransmission, ping, read_block, subscribe

NOTIFIER = Ed25519PrivateKey.from_private_bytes(b"n" * 32)
SERVER = PrivateKey(b"s" * 32)
NONCE = b"0123456789abcdefghijklmn"
NMSG = b"\0\0\x01qNMSG " + NONCE + b"\x04meta"
MESSAGE = MessageArrived(NONCE, b"meta")


def block(*transmissions: bytes) -> bytes:
    return next(batch_blocks(transmissions, SMP_BLOCK_BYTES))


def test_a_subscription_is_signed_with_the_session() -> None:
    sent = subscribe(b"q", NOTIFIER, b"cc", b"ss", SERVER.public_key)
    signature = NOTIFIER.sign(b"\x02ss\x02cc\x01qNSUB")
    assert sent == b"\x40" + signature + b"\x02cc\x01qNSUB"


def test_a_notifier_may_be_of_x25519() -> None:
    sent = subscribe(b"q", PrivateKey(b"n" * 32), b"cc", b"ss", SERVER.public_key)
    assert (sent[0], sent[81:]) == (80, b"\x02cc\x01qNSUB")


def test_a_ping_is_these_bytes() -> None:
    assert ping(b"cc") == bytes.fromhex("00 02 6363 00 50494e47")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\0\x02cc\x01qOK", SmpTransmission(b"cc", b"q", SmpSignal.OK)),
        (b"\0\x02cc\0PONG", SmpTransmission(b"cc", b"", SmpSignal.PONG)),
        (b"\0\x02cc\x01qERR AUTH", SmpTransmission(b"cc", b"q", ErrorType.AUTH)),
        (b"\0\0\0ERR BLOCK", SmpTransmission(b"", b"", ErrorType.BLOCK)),
        (NMSG, SmpTransmission(b"", b"q", MESSAGE)),
        (b"\0\0\x01qEND", SmpTransmission(b"", b"q", SmpSignal.END)),
        (b"\0\0\x01qDELD", SmpTransmission(b"", b"q", SmpSignal.DELETED)),
    ],
)
def test_each_answer_and_event_is_read(raw: bytes, expected: SmpTransmission) -> None:
    assert read_block(block(raw)) == [expected]


def test_a_block_holds_several() -> None:
    found = read_block(block(b"\0\x02cc\x01qOK", NMSG))
    assert [one.content for one in found] == [SmpSignal.OK, MESSAGE]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\0\x01q",
        b"\0\0\x01qOK ",
        b"\0\0\x01qENDS",
        b"\0\x02cc\x01qSOK",
        b"\0\x02cc\x01qEND",
        b"\0\0\0END",
        b"\0\0\0DELD",
        b"\0\x02cc" + NMSG[2:],
        b"\0\0\0" + NMSG[4:],
        NMSG + b"x",
        NMSG[:-1],
        NMSG[:-5] + b"\0",
        NMSG[:-5] + bytes([145]) + bytes(145),
        b"\0\x02cc\x01qERR WHY",
        b"\0\x02cc\x01qERR",
    ],
)
def test_anything_else_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedSimplex):
        read_block(block(NMSG, raw))


@given(at=st.integers(0, 120), inserted=st.binary(max_size=4), cut=st.integers(0, 4))
def test_however_a_block_is_changed_it_is_read_or_malformed(at: int, inserted: bytes, cut: int) -> None:
    whole = block(b"\0\x02cc\x01qERR AUTH", NMSG, b"\0\0\x01qEND")
    try:
        found = read_block(whole[:at] + inserted + whole[at + cut :])
    except MalformedSimplex:
        return
    assert 1 <= len(found) <= 3


def test_neither_queue_nor_message_shows() -> None:
    (found,) = read_block(block(NMSG))
    assert repr(found) == "SmpTransmission(correlation_id=b'', content=MessageArrived())"
