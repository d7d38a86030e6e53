import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import PrivateKey

from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES, batch_blocks, batched, pad, unpad
from clarion.networks.simplex.credentials import authorize, dh_der
from clarion.networks.simplex.encoding import short
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import (
    OK,
    PONG,
    NtfReply,
    NtfRequest,
    NtfSession,
    queue_status,
    queue_subscribed,
    refusal,
    reply_blocks,
    requests,
    token_registered,
    token_status,
)
from clarion.networks.simplex.ntf_commands import PlainCommand, ScheduleWakeUps
from clarion.networks.simplex.statuses import QueueStatus, TokenStatus
from clarion.networks.simplex.transmissions import Transmission

SERVER = PrivateKey(b"s" * 32)
ID = b"session"
SESSION = NtfSession(ID, 3, SERVER)
FIRST_SESSION = NtfSession(ID, 1, SERVER)
OWNER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
X25519 = PrivateKey(b"x" * 32)
PING = Transmission(b"c", b"", b"PING")


def signed(command: bytes, entity_id: bytes = b"entity", session_id: bytes | None = None) -> Transmission:
    """By its owner, in a session of which each transmission names it, or none does."""
    plain = Transmission(b"c", entity_id, command)
    return Transmission(b"c", entity_id, command, OWNER.sign(plain.signed(ID)), session_id)


def block(*transmissions: Transmission) -> bytes:
    return next(batch_blocks([transmission.encoded for transmission in transmissions], NTF_BLOCK_BYTES))


def read(*transmissions: Transmission) -> list[NtfRequest | NtfReply]:
    return list(requests(block(*transmissions), SESSION))


def request(transmission: Transmission, session: NtfSession = SESSION) -> NtfRequest:
    raw = block(transmission) if session.has_batches else pad(transmission.encoded, NTF_BLOCK_BYTES)
    (read,) = requests(raw, session)
    assert isinstance(read, NtfRequest)
    return read


def refused(error: ErrorType, correlation_id: bytes = b"c", entity_id: bytes = b"entity") -> NtfReply:
    return NtfReply(correlation_id, entity_id, refusal(error))


def test_a_request_is_these_bytes() -> None:
    """One transmission of 9 bytes: no authorization, correlation id `ab`, no entity, `PING`."""
    raw = bytes.fromhex("000c 01 0009 00 02 6162 00 50494e47") + b"#" * 498
    assert list(requests(raw, SESSION)) == [NtfRequest(PlainCommand.PING, Transmission(b"ab", b"", b"PING"), SESSION)]


def test_in_version_1_it_names_its_session_and_has_a_block_of_its_own() -> None:
    raw = bytes.fromhex("000c 00 02 7373 02 6162 00 50494e47") + b"#" * 498
    session = NtfSession(b"ss", 1, SERVER)
    ping = Transmission(b"ab", b"", b"PING", session_id=b"ss")
    assert list(requests(raw, session)) == [NtfRequest(PlainCommand.PING, ping, session)]


def test_replies_are_these_bytes() -> None:
    replies = [NtfReply(b"ab", b"", PONG), NtfReply(b"c", b"e", OK)]
    content = bytes.fromhex("0015 02 0009 00 02 6162 00 504f4e47 0007 00 01 63 01 65 4f4b")
    assert list(reply_blocks(replies, SESSION)) == [content + b"#" * 489]


def test_in_version_1_each_reply_has_a_block_and_names_the_session() -> None:
    replies = [NtfReply(b"ab", b"", PONG), NtfReply(b"c", b"e", OK)]
    expected = ["00 07 73657373696f6e 02 6162 00 504f4e47", "00 07 73657373696f6e 01 63 01 65 4f4b"]
    assert [unpad(raw) for raw in reply_blocks(replies, FIRST_SESSION)] == list(map(bytes.fromhex, expected))


def test_a_command_is_authorized_by_its_owner_alone() -> None:
    asked = request(signed(b"TCRN \0\x14"))
    assert asked.command == ScheduleWakeUps(20)
    assert asked.is_authorized_by(OWNER.public_key())
    assert not asked.is_authorized_by(Ed25519PrivateKey.generate().public_key())
    assert not asked.is_authorized_by(None)


def test_by_an_authenticator_too() -> None:
    plain = Transmission(b"c", b"entity", b"TCHK")
    authenticator = authorize(plain.signed(ID), b"c", X25519, SERVER.public_key)
    asked = request(Transmission(b"c", b"entity", b"TCHK", authenticator))
    assert asked.is_authorized_by(X25519.public_key)
    assert not asked.is_authorized_by(OWNER.public_key())


def test_what_was_authorized_in_one_session_is_not_in_another() -> None:
    asked = request(signed(b"TCHK"), NtfSession(b"other", 3, SERVER))
    assert not asked.is_authorized_by(OWNER.public_key())


def test_version_1_authorizes_the_same_bytes() -> None:
    assert request(signed(b"TCHK", session_id=ID), FIRST_SESSION).is_authorized_by(OWNER.public_key())


def test_a_batch_is_answered_one_by_one() -> None:
    found = read(signed(b"TCHK"), signed(b"?"), PING)
    assert isinstance(found[0], NtfRequest)
    assert found[1] == refused(ErrorType.CMD_UNKNOWN)
    assert isinstance(found[2], NtfRequest)
    assert found[2].reply(PONG) == NtfReply(b"c", b"", PONG)


def test_an_error_keeps_the_requests_ids() -> None:
    assert read(signed(b"TCHK ")) == [refused(ErrorType.CMD_SYNTAX)]
    assert read(signed(b"TCHK", b"")) == [refused(ErrorType.CMD_NO_AUTH, entity_id=b"")]
    assert read(signed(b"PING")) == [refused(ErrorType.CMD_HAS_AUTH)]


@pytest.mark.parametrize("size", [1, 63, 65, 79, 81, 113, 115])
def test_an_authorization_of_another_length_is_no_block(size: int) -> None:
    assert read(Transmission(b"c", b"entity", b"TCHK", bytes(size))) == [refused(ErrorType.BLOCK)]


@pytest.mark.parametrize("session", [NtfSession(b"s" * 48, 3, SERVER), NtfSession(b"s" * 48, 1, SERVER)])
def test_the_longest_answer_fits_beside_the_longest_ids(session: NtfSession) -> None:
    longest = token_registered(b"t" * 24, X25519.public_key)
    (sent,) = reply_blocks([NtfReply(b"c" * 64, b"e" * 64, longest)], session)
    assert len(sent) == NTF_BLOCK_BYTES


@pytest.mark.parametrize("ids", [(b"c" * 65, b""), (b"c", b"e" * 65)])
def test_longer_ids_are_not_repeated(ids: tuple[bytes, bytes]) -> None:
    assert read(Transmission(*ids, b"PING")) == [refused(ErrorType.BLOCK, b"", b"")]
    assert read(Transmission(b"c" * 64, b"e" * 64, b"PING")) == [refused(ErrorType.CMD_HAS_AUTH, b"c" * 64, b"e" * 64)]


def test_version_1_refuses_another_session() -> None:
    raw = pad(signed(b"TCHK", session_id=b"other").encoded, NTF_BLOCK_BYTES)
    assert list(requests(raw, FIRST_SESSION)) == [refused(ErrorType.SESSION)]


@pytest.mark.parametrize("session", [SESSION, FIRST_SESSION])
@pytest.mark.parametrize("raw", [b"", b"\xff" * 512, bytes(512)])
def test_what_is_no_block_is_answered_once(raw: bytes, session: NtfSession) -> None:
    assert list(requests(raw, session)) == [refused(ErrorType.BLOCK, b"", b"")]


def test_of_a_batch_only_what_is_no_transmission_is_refused() -> None:
    raw = next(batch_blocks([b"\x40short", PING.encoded], NTF_BLOCK_BYTES))
    unreadable, ping = requests(raw, SESSION)
    assert unreadable == refused(ErrorType.BLOCK, b"", b"")
    assert isinstance(ping, NtfRequest)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (OK, b"OK"),
        (PONG, b"PONG"),
        (token_status(TokenStatus.ACTIVE, 3), b"TKN ACTIVE"),
        (token_status(TokenStatus.INVALID_EXPIRED, 3), b"TKN INVALID,EXPIRED"),
        (token_status(TokenStatus.INVALID_EXPIRED, 2), b"TKN INVALID"),
        (queue_subscribed(b"id"), b"IDSUB \x02id"),
        (queue_status(QueueStatus.END), b"SUB END"),
        (queue_status("ERR QUOTA"), b"SUB ERR QUOTA"),
        (refusal(ErrorType.AUTH), b"ERR AUTH"),
        (refusal(ErrorType.CMD_NO_AUTH), b"ERR CMD NO_AUTH"),
        (token_registered(b"id", X25519.public_key), b"IDTKN \x02id" + short(dh_der(X25519.public_key))),
    ],
)
def test_each_answer_is_written(content: bytes, expected: bytes) -> None:
    assert content == expected


@given(
    at=st.integers(0, 2000),
    inserted=st.binary(max_size=4),
    cut=st.integers(0, 4),
    session=st.sampled_from([SESSION, FIRST_SESSION]),
)
def test_however_a_block_is_changed_it_is_answered(at: int, inserted: bytes, cut: int, session: NtfSession) -> None:
    named = None if session.has_batches else ID
    whole = pad(signed(b"TCHK", session_id=named).encoded, 512) if named else block(signed(b"TCHK"), PING)
    place = at % len(whole)
    found = list(requests(whole[:place] + inserted + whole[place + cut :], session))
    replies = [one.reply(OK) if isinstance(one, NtfRequest) else one for one in found]
    sent = list(reply_blocks(replies, session))
    assert {len(raw) for raw in sent} == {NTF_BLOCK_BYTES}
    if session.has_batches:
        assert sum(len(batched(raw)) for raw in sent) == len(found)


def test_neither_keys_nor_ids_of_tokens_show() -> None:
    shown = repr((request(signed(b"TVFY \x04code")), NtfReply(b"c", b"entity", b"IDTKN")))
    assert not [secret for secret in ("entity'", "code", "session'", "IDTKN") if f"b'{secret}" in shown]
