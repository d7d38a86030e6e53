import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clarion.networks.statements.codec import MAX_SIZE, MalformedStatement, Proof, ProofKind, Statement, decode, encode

FUZZ_SEED = 2026
MUTATIONS = 1_000_000

key = st.binary(min_size=32, max_size=32)
proofs = st.one_of(
    st.builds(Proof, st.sampled_from([ProofKind.SR25519, ProofKind.ED25519]), st.binary(min_size=64, max_size=64), key),
    st.builds(
        Proof, st.just(ProofKind.ECDSA), st.binary(min_size=65, max_size=65), st.binary(min_size=33, max_size=33)
    ),
)
payload_lengths = st.sampled_from([0, 1, 63, 64, 65, 16_383, 16_384, 16_385, 70_000])
data = st.one_of(st.binary(max_size=200), payload_lengths.map(lambda length: b"\xa5" * length))
statements = st.builds(
    Statement,
    expiry=st.integers(0, 2**64 - 1),
    topics=st.lists(key, max_size=4).map(tuple),
    data=st.none() | data,
    channel=st.none() | key,
    decryption_key=st.none() | key,
    proof=st.none() | proofs,
)


def unhex(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value.removeprefix("0x"))


def is_canonical(vector: dict[str, Any]) -> bool:
    expect = vector["expect"]
    return bool(expect["decode"] and expect.get("canonical") and expect.get("decode_current_node", True))


def refusal(raw: bytes) -> tuple[int, str]:
    with pytest.raises(MalformedStatement) as refused:
        decode(raw)
    return refused.value.offset, refused.value.reason


def test_every_vector_decodes_if_and_only_if_it_is_canonical(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["statement"][2:])
    if not is_canonical(vector):
        with pytest.raises(MalformedStatement):
            decode(raw)
        return
    statement, fields = decode(raw), vector["fields"]
    assert statement.expiry == int(fields["expiry"])
    assert statement.topics == tuple(bytes.fromhex(topic[2:]) for topic in fields.get("topics", ()))
    assert statement.channel == unhex(fields.get("channel"))
    assert statement.data == unhex(fields.get("data"))
    assert statement.decryption_key == unhex(fields.get("decryptionKey"))
    assert (statement.proof.kind.name.lower() if statement.proof else None) == vector["proof_type"]
    assert statement.signer == unhex(vector["signer"])
    assert statement.signing_payload == unhex(vector["signing_payload"])
    assert statement.hash == unhex(vector["hash"])
    assert encode(statement) == raw


@given(statement=statements)
def test_what_is_encoded_decodes_to_the_same(statement: Statement) -> None:
    raw = encode(statement)
    decoded = decode(raw)
    assert decoded == statement
    assert encode(decoded) == raw
    assert decoded.hash == statement.hash
    assert decoded.signing_payload == statement.signing_payload


@given(statement=statements)
@settings(max_examples=60)
def test_the_oracle_reads_and_writes_the_same_bytes(
    oracle_encode: Callable[[Statement], bytes], oracle_decode: Callable[[bytes], Statement], statement: Statement
) -> None:
    raw = encode(statement)
    assert oracle_encode(statement) == raw
    assert oracle_decode(raw) == statement


def test_expiry_is_seconds_and_sequence() -> None:
    assert Statement(expiry=1_700_000_000 << 32 | 7).expires_at == 1_700_000_000


def test_another_proof_on_a_decoded_statement_changes_its_hash_but_not_what_is_signed(
    wire: Callable[[str], bytes],
) -> None:
    signed = decode(wire("sr25519-1topic-data"))
    unsigned = signed._replace(proof=None)
    assert unsigned.signing_payload == signed.signing_payload
    assert unsigned.encoded == wire("no-proof")
    assert unsigned.hash != signed.hash


def test_a_statement_cannot_be_changed() -> None:
    statement = Statement(expiry=1)
    with pytest.raises(AttributeError):
        statement.expiry = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "offset", "reason"),
    [
        ("bad-empty-input", 0, "field count missing or out of range"),
        ("noncanonical-compact-count", 0, "field count missing or out of range"),
        ("bad-count-too-large", 10, "field missing"),
        ("bad-truncated", 142, "field truncated"),
        ("bad-duplicate-field", 10, "tag repeated or out of order"),
        ("bad-order", 34, "tag repeated or out of order"),
        ("bad-unknown-field-tag", 10, "unknown tag"),
        ("bad-unknown-proof-variant", 2, "unknown proof"),
        ("onchain-proof", 2, "unknown proof"),
        ("noncanonical-topic-gap", 10, "topic gap"),
        ("noncanonical-missing-expiry", 37, "expiry missing"),
        ("noncanonical-trailing-bytes", 157, "trailing bytes"),
    ],
)
def test_a_refusal_says_where_and_why(wire: Callable[[str], bytes], name: str, offset: int, reason: str) -> None:
    assert refusal(wire(name)) == (offset, reason)
    with pytest.raises(MalformedStatement, match=f"^{reason} at offset {offset}$"):
        decode(wire(name))


EXPIRY_ONLY = encode(Statement(expiry=1))


@pytest.mark.parametrize(
    "length",
    [
        b"\x01\x00",  # 0 in two bytes
        b"\xfd\x00",  # 63 in two bytes
        b"\x02\x00\x00\x00",  # 0 in four bytes
        b"\xfe\xff\x00\x00",  # 16,383 in four bytes
        b"\x03\x00\x00\x00\x00",  # big-integer mode
        b"\xff" * 68,  # big-integer mode, as long as it gets
    ],
)
def test_a_data_length_that_is_not_minimal_is_refused(length: bytes) -> None:
    raw = b"\x08" + EXPIRY_ONLY[1:] + b"\x08" + length + b"x" * 20_000
    assert refusal(raw) == (11, "data length out of range or not minimal")


@pytest.mark.parametrize("length", [b"", b"\x01", b"\x02\x00\x01"])
def test_a_data_length_that_is_cut_off_is_refused(length: bytes) -> None:
    assert refusal(b"\x08" + EXPIRY_ONLY[1:] + b"\x08" + length) == (11, "field truncated")


@pytest.mark.parametrize("length", [b"\x04", b"\xfd\xff", b"\xfe\xff\xff\xff"])
def test_a_data_length_beyond_the_input_is_refused(length: bytes) -> None:
    raw = b"\x08" + EXPIRY_ONLY[1:] + b"\x08" + length
    assert refusal(raw) == (11, "field truncated")


def test_every_prefix_of_a_statement_is_refused(wire: Callable[[str], bytes]) -> None:
    raw = wire("sr25519-4topic-channel-data")
    for length in range(len(raw)):
        refusal(raw[:length])


def test_every_field_alone_needs_an_expiry() -> None:
    assert refusal(b"\x00") == (1, "expiry missing")
    assert refusal(b"\x04\x03" + bytes(32)) == (34, "expiry missing")


@given(statement=statements)
@settings(max_examples=300)
def test_an_expiry_is_all_that_is_missing_where_it_is_said_to_be(statement: Statement) -> None:
    raw = encode(statement)
    before = len(encode(statement._replace(expiry=0, topics=(), channel=None, data=None))) - 9
    without = bytes([raw[0] - 4]) + raw[1:before] + raw[before + 9 :]
    assert refusal(without) == (len(without), "expiry missing")


def test_the_size_limit_is_exact() -> None:
    overhead = len(encode(Statement(expiry=1, data=b"x" * 20_000))) - 20_000
    largest = Statement(expiry=1, data=bytes(MAX_SIZE - overhead))
    raw = encode(largest)
    assert len(raw) == MAX_SIZE
    assert decode(raw) == largest
    assert refusal(raw + b"x") == (MAX_SIZE, "too long")
    with pytest.raises(ValueError, match="at most 1048575 bytes"):
        encode(largest._replace(data=bytes(MAX_SIZE - overhead + 1)))


@pytest.mark.parametrize(
    "unencodable",
    [
        Statement(expiry=-1),
        Statement(expiry=2**64),
        Statement(expiry=1, topics=(bytes(32),) * 5),
        Statement(expiry=1, topics=(bytes(31),)),
        Statement(expiry=1, channel=bytes(33)),
        Statement(expiry=1, decryption_key=b""),
        Statement(expiry=1, proof=Proof(ProofKind.SR25519, bytes(65), bytes(32))),
        Statement(expiry=1, proof=Proof(ProofKind.ECDSA, bytes(65), bytes(32))),
    ],
)
def test_what_the_format_cannot_carry_is_not_encoded(unencodable: Statement) -> None:
    with pytest.raises(ValueError, match=r".+"):
        encode(unencodable)


@given(st.binary(max_size=400))
@settings(max_examples=500)
def test_arbitrary_bytes_are_refused_or_canonical(raw: bytes) -> None:
    assert refused_or_canonical(raw)


def test_a_million_mutations_are_refused_or_canonical(
    vectors: dict[str, Any], wire: Callable[[str], bytes], oracle_decode: Callable[[bytes], Statement]
) -> None:
    originals = [raw for name in vectors if len(raw := wire(name)) < 400]
    accepted: list[bytes] = []
    for mutated in mutations(originals, random.Random(FUZZ_SEED), MUTATIONS):
        assert refused_or_canonical(mutated, accepted), mutated.hex()
    assert len(accepted) > MUTATIONS // 10  # the mutations reach past the first check
    for raw in accepted[:: len(accepted) // 200]:
        assert oracle_decode(raw) == decode(raw), raw.hex()


def refused_or_canonical(raw: bytes, accepted: list[bytes] | None = None) -> bool:
    try:
        statement = decode(raw)
    except MalformedStatement as refused:
        return 0 <= refused.offset <= len(raw)
    if accepted is not None:
        accepted.append(raw)
    return encode(statement) == raw


STRUCTURE = bytes(range(12)) + bytes((0x3F, 0x40, 0x80, 0xFC, 0xFD, 0xFE, 0xFF))


def mutations(originals: list[bytes], rng: random.Random, number: int) -> Iterator[bytes]:
    """Each original cut, overwritten, spliced or doubled at random places, often by bytes that mean something."""
    pick, roll = rng.choice, rng.random
    for _ in range(number):
        raw = pick(originals)
        at = int(roll() * (len(raw) + 1))
        match int(roll() * 5):
            case 0:
                yield raw[:at]
            case 1:
                yield b"%b%c%b" % (raw[:at], pick(STRUCTURE), raw[at + 1 :])
            case 2:
                yield b"%b%c%b" % (raw[:at], pick(STRUCTURE), raw[at:])
            case 3:
                yield raw[:at] + raw[at + 1 + int(roll() * 40) :]
            case _:
                yield raw[:at] + pick(originals)[at:]
