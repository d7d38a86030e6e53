"""Byte examples, computed by hand from the protocol's facts, and the vectors of RFC 7748 and NaCl's paper."""

from hashlib import sha256, sha512

import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from local.simplex.agent_state import AgentQueue
from local.simplex.codec import WireFault, WireReader, b64, i64, large, padded, several, short, u16, unb64, unpadded
from local.simplex.identity import StandInIdentity, key_signed_by
from local.simplex.keys import SharedBox, auth_key, authorization, authorizes, nonce_of, pkcs8, spki
from local.simplex.pushes import PushedItem, as_item, items_in, notifications, opened
from local.simplex.stream import SimplexAddress
from local.simplex.transmissions import WireTransmission, block_contents, transmissions_in

ALICE = X25519PrivateKey.from_private_bytes(
    bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
)
BOB = X25519PrivateKey.from_private_bytes(
    bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
)
SHARED = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
NOTIFIER = b"N" * 24
SERVER = SimplexAddress(b"\0" * 32, ("smp.example", "abc.onion"), "5223")


def queue(secret: bytes = SHARED, notifier_id: bytes = NOTIFIER, last_seen: int | None = None) -> AgentQueue:
    return AgentQueue(SERVER, b"", b"", b"", notifier_id=notifier_id, notifier_secret=secret, last_seen=last_seen)


def item(at: int, secret: bytes = SHARED, notifier_id: bytes = NOTIFIER) -> PushedItem:
    nonce = b"n" * 24
    meta = SharedBox(secret).seal(nonce, padded(short(b"M" * 24) + i64(at), 128))
    return PushedItem(SERVER.key_hash, SERVER.hosts, SERVER.port, notifier_id, at, nonce, meta)


def test_values_are_written_with_their_lengths_before_them() -> None:
    assert short(b"abc") == b"\x03abc"
    assert large(b"abc") == b"\x00\x03abc"
    assert several([short(b"a"), short(b"")]) == b"\x02\x01a\x00"
    assert u16(0x0102) == b"\x01\x02"
    assert i64(1_700_000_000) == b"\x00\x00\x00\x00\x65\x53\xf1\x00"


def test_a_block_says_the_length_of_its_content_and_is_filled_up() -> None:
    assert padded(b"abc", 8) == b"\x00\x03abc###"
    assert unpadded(b"\x00\x03abcxyz") == b"abc"
    with pytest.raises(WireFault, match="do not fit"):
        padded(b"1234567", 8)
    with pytest.raises(WireFault, match="expected 4 bytes"):
        unpadded(b"\x00\x04abc")


@given(st.lists(st.binary(max_size=255), max_size=255))
def test_what_is_written_is_read(values: list[bytes]) -> None:
    reader = WireReader(several([short(each) for each in values]))
    assert reader.several(reader.short) == values
    reader.end()


def test_text_of_bytes_is_read_with_padding_and_without() -> None:
    assert b64(b"\xfb\xff\xfe\x00") == "-__-AA=="
    assert unb64("-__-AA==") == unb64("-__-AA") == b"\xfb\xff\xfe\x00"


def test_keys_are_written_as_the_facts_count_them() -> None:
    ed25519, ed448 = Ed25519PrivateKey.from_private_bytes(b"\1" * 32), Ed448PrivateKey.from_private_bytes(b"\1" * 57)
    assert spki(ALICE.public_key())[:12].hex() == "302a300506032b656e032100"
    assert spki(ALICE.public_key())[12:].hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert spki(ed25519.public_key())[:12].hex() == "302a300506032b6570032100"
    assert [len(spki(each.public_key())) for each in (ed25519, ed448)] == [44, 69]
    assert pkcs8(ed25519).hex() == "302e020100300506032b657004220420" + "01" * 32
    assert [len(pkcs8(each)) for each in (ed25519, ed448, ALICE)] == [48, 73, 48]
    assert pkcs8(auth_key(pkcs8(ALICE))) == pkcs8(ALICE)


def test_two_keys_make_the_box_of_nacls_paper() -> None:
    nonce = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
    boxes = SharedBox.between(ALICE, BOB.public_key()), SharedBox.between(BOB, ALICE.public_key())
    assert [box.secret for box in boxes] == [SHARED, SHARED]
    sealed = boxes[0].seal(nonce, bytes(131))
    assert len(sealed) == 16 + 131
    assert boxes[1].open(nonce, sealed) == bytes(131)
    with pytest.raises(WireFault, match="not sealed"):
        boxes[1].open(bytes(24), sealed)


def test_a_transmission_implies_its_session_but_in_the_first_version() -> None:
    ping = WireTransmission(b"PING", correlation=b"cc")
    assert ping.encoded() == b"\x00\x02cc\x00PING"
    assert ping.encoded(b"ss") == b"\x00\x02ss\x02cc\x00PING"
    assert ping.authorized(b"ss") == b"\x02ss\x02cc\x00PING"
    assert WireTransmission.decoded(b"\x00\x02ss\x02cc\x00PING", b"ss") == ping


def test_a_command_is_authorised_for_its_session_by_a_signature_or_an_authenticator() -> None:
    check = WireTransmission(b"SCHK", b"E" * 24, b"C" * 24)
    authorized = b"\x02ss\x18" + b"C" * 24 + b"\x18" + b"E" * 24 + b"SCHK"
    key = Ed25519PrivateKey.generate()
    assert authorizes(spki(key.public_key()), check.by(key, b"ss").auth, authorized)
    assert len(Ed448PrivateKey.generate().sign(authorized)) == 114
    by_box = authorization(ALICE, authorized, b"C" * 24, BOB.public_key())
    assert SharedBox(SHARED).open(b"C" * 24, by_box) == sha512(authorized).digest()
    assert len(by_box) == 80


def test_a_nonce_is_a_correlation_cut_or_filled_with_zeros() -> None:
    assert nonce_of(b"ab") == b"ab" + bytes(22)
    assert nonce_of(b"a" * 25) == b"a" * 24


def test_four_checks_fit_a_block_and_a_hundred_and_thirty_five_subscriptions_one_of_smp() -> None:
    checks = [WireTransmission(b"SCHK", b"E" * 24, b"C" * 24, b"A" * 64) for _ in range(9)]
    blocks = [*block_contents(checks, 512)]
    assert [block[0] for block in blocks] == [4, 4, 1]
    assert blocks[2] == b"\x01\x00\x77" + b"\x40" + b"A" * 64 + b"\x18" + b"C" * 24 + b"\x18" + b"E" * 24 + b"SCHK"
    assert [each for block in blocks for each in transmissions_in(block)] == checks
    [first, second] = block_contents([checks[0]] * 136, 16_384)
    assert [first[0], second[0]] == [135, 1]


def test_eighty_notifications_fit_a_block() -> None:
    event = b"NMSG " + b"n" * 24 + short(bytes(144))
    [first, second] = block_contents([WireTransmission(event, b"E" * 24)] * 81, 16_384)
    assert [first[0], second[0]] == [80, 1]


@pytest.mark.parametrize(("kind", "size"), [(Ed25519PrivateKey, 120), (Ed448PrivateKey, 171)])
def test_the_servers_key_is_signed_by_its_certificate(
    kind: type[Ed25519PrivateKey] | type[Ed448PrivateKey], size: int
) -> None:
    identity, other = StandInIdentity.made(kind), StandInIdentity.made(kind)
    signed = identity.signed(ALICE.public_key())
    assert len(signed) == size
    assert signed.endswith(identity.leaf_key.sign(spki(ALICE.public_key())))
    assert spki(key_signed_by(identity.chain, signed)) == spki(ALICE.public_key())
    with pytest.raises(WireFault, match="another certificate"):
        key_signed_by(other.chain, signed)
    with pytest.raises(WireFault, match="no signed key"):
        key_signed_by(identity.chain, b"\x31" + signed[1:])


def test_an_address_names_the_identity_and_where_it_is() -> None:
    identity = StandInIdentity.made()
    address = SimplexAddress.parsed(f"ntf://{b64(sha256(identity.chain[1]).digest())}@ntf.example,x.onion:6001")
    assert address == SimplexAddress(identity.key_hash, ("ntf.example", "x.onion"), "6001")
    assert SimplexAddress.parsed(f"ntf://{b64(identity.key_hash)}@ntf.example").port == ""


def test_an_item_is_text_and_several_are_joined() -> None:
    [one] = items_in(
        b"smp://"
        + b"A" * 43
        + b"=@smp.example,abc.onion:5223/"
        + b"Tk5O" * 8
        + b" 1700000000 "
        + b"bm5u" * 8
        + b" AQID"
    )
    assert one == PushedItem(
        bytes(32), ("smp.example", "abc.onion"), "5223", NOTIFIER, 1_700_000_000, b"n" * 24, b"\1\2\3"
    )
    assert items_in(f"{as_item(one)};{as_item(one)}".encode()) == [one, one]
    with pytest.raises(WireFault, match="no item"):
        items_in(b"smp://x 1 y z")


def test_a_push_is_opened_by_the_tokens_secret() -> None:
    sealed = SharedBox(SHARED).seal(b"n" * 24, padded(b"the code", 100))
    data = {"nonce": b64(b"n" * 24), "verification": b64(sealed)}
    assert opened(SHARED, data, "verification") == b"the code"


def test_what_was_seen_before_is_left_out_but_not_if_it_comes_last() -> None:
    seen = queue(last_seen=100)
    assert [each.message_at for each in notifications([item(99), item(100), item(101)], [seen])] == [101]
    assert [each.message_at for each in notifications([item(101), item(99)], [seen])] == [101, 99]
    assert [each.message_at for each in notifications([item(1), item(2)], [queue()])] == [1, 2]


def test_what_is_of_no_known_queue_is_left_out() -> None:
    stranger = item(100, secret=b"s" * 32, notifier_id=b"O" * 24)
    assert notifications([stranger], [queue()]) == []
    [known] = notifications([stranger, item(7)], [queue()])
    assert (known.message_id, known.message_at) == (b"M" * 24, 7)
