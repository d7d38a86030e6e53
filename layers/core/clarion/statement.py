"""The statement store's wire format: one strict, canonical codec.

A statement is SCALE: a compact count, then fields `tag ++ payload` with strictly increasing tags:

    0 proof            variant ++ signature ++ signer
    1 decryption key   32 bytes (deprecated)
    2 expiry           u64, little-endian: UNIX seconds << 32 | sequence
    3 channel          32 bytes
    4..7 topics        32 bytes each
    8 data             compact length ++ bytes

Nodes tolerate a topic gap, a missing expiry and trailing bytes, and rewrite such a statement when they pass it on.
Here all three are malformed, so each statement has exactly one encoding: `encode(decode(raw)) == raw`, and what was
signed can be rebuilt from the fields.

https://github.com/paritytech/polkadot-sdk/blob/master/substrate/primitives/statement-store/src/lib.rs
"""

from enum import Enum
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

MAX_SIZE = 1_048_575
MAX_TOPICS = 4

_PROOF, _DECRYPTION_KEY, _EXPIRY, _CHANNEL, _TOPIC_1, _DATA = 0, 1, 2, 3, 4, 8
_TAGS = _DATA + 1
_VARIABLE = 0
_LENGTH_MODES = ((1, 0), (2, 1 << 6), (4, 1 << 14), (0, 1 << 30))
_WIDTHS = (_VARIABLE, 32, 8, 32, 32, 32, 32, 32, _VARIABLE)


class MalformedStatement(ValueError):  # noqa: N818 - it names what was received, as the decision `malformed` does
    """The bytes are no canonical statement; `offset` is where that shows."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset = offset
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.reason} at offset {self.offset}"


class ProofKind(Enum):
    """How a statement was signed; the values are the variants on the wire."""

    SR25519 = 0
    ED25519 = 1
    ECDSA = 2


_PROOF_WIDTHS = {  # of signature and signer
    ProofKind.SR25519: (64, 32),
    ProofKind.ED25519: (64, 32),
    ProofKind.ECDSA: (65, 33),
}
_PROOF_LAYOUTS = {bytes([kind.value]): (kind, *widths) for kind, widths in _PROOF_WIDTHS.items()}


class Proof(NamedTuple):
    kind: ProofKind
    signature: bytes
    signer: bytes


class _Fields(NamedTuple):
    expiry: int
    topics: tuple[bytes, ...] = ()
    data: bytes | None = None
    channel: bytes | None = None
    decryption_key: bytes | None = None
    proof: Proof | None = None


class Statement(_Fields):
    """One statement's fields as they are encoded: `topics` in order, duplicates kept; empty `data` is not absent.

    A tuple because a frozen dataclass takes four times as long to make, and one is made for each statement seen.
    """

    @property
    def expires_at(self) -> int:
        """UNIX seconds from which on nodes refuse the statement."""
        return self.expiry >> 32

    @property
    def signer(self) -> bytes | None:
        return self.proof.signer if self.proof else None

    @property
    def signing_payload(self) -> bytes:
        """The bytes that the proof signs: every field but the proof, without the count."""
        return self.encoded[1 + _proof_size(self.proof) :]

    @property
    def hash(self) -> bytes:
        """BLAKE2b-256 of the encoding. The proof is part of it, so signing the same content again changes it."""
        return blake2b(self.encoded, digest_size=32).digest()

    @cached_property
    def encoded(self) -> bytes:
        return encode(self)


def decode(raw: bytes) -> Statement:
    """Raises `MalformedStatement`, and nothing else, for whatever is not a canonical statement."""
    size = len(raw)
    if size > MAX_SIZE:
        raise MalformedStatement(MAX_SIZE, "too long")
    proof = data = None
    fields: list[bytes | None] = [None] * _TAGS
    offset, last = 1, -1
    for _ in range(_field_count(raw)):
        if offset >= size:
            raise MalformedStatement(offset, "field missing")
        tag = raw[offset]
        if tag <= last or tag >= _TAGS or (last < tag - 1 and _TOPIC_1 < tag < _DATA):
            raise MalformedStatement(offset, _tag_flaw(tag, last))
        start, last = offset + 1, tag
        if width := _WIDTHS[tag]:
            offset = start + width
            fields[tag] = raw[start:offset]
        elif tag == _DATA:
            start, offset = _data_bounds(raw, start)
            data = raw[start:offset]
        else:
            proof, offset = _read_proof(raw, start)
        if offset > size:
            raise MalformedStatement(start, "field truncated")
    if offset != size:
        raise MalformedStatement(offset, "trailing bytes")
    expiry = fields[_EXPIRY]
    if expiry is None:
        raise MalformedStatement(offset, "expiry missing")
    statement = Statement(
        int.from_bytes(expiry, "little"),
        tuple(filter(None, fields[_TOPIC_1:_DATA])),
        data,
        fields[_CHANNEL],
        fields[_DECRYPTION_KEY],
        proof,
    )
    statement.__dict__["encoded"] = raw  # there is only this one encoding of it
    return statement


def encode(statement: Statement) -> bytes:
    """Raises `ValueError` for values that the format can't carry."""
    fields = _unsigned_fields(statement)
    if statement.proof:
        fields.insert(0, _proof_field(statement.proof))
    encoded = b"".join([_compact(len(fields)), *fields])
    if len(encoded) > MAX_SIZE:
        raise ValueError(f"a statement has at most {MAX_SIZE} bytes, not {len(encoded)}")
    return encoded


def _proof_size(proof: Proof | None) -> int:
    return 2 + len(proof.signature) + len(proof.signer) if proof else 0


def _field_count(raw: bytes) -> int:
    if not raw:
        raise MalformedStatement(0, "empty")
    if raw[0] & 0b11 or raw[0] >> 2 > _TAGS:
        raise MalformedStatement(0, "field count out of range")
    return raw[0] >> 2


def _tag_flaw(tag: int, last: int) -> str:
    if tag >= _TAGS:
        return "unknown tag"
    return "topic gap" if tag > last else "tag repeated or out of order"


def _read_proof(raw: bytes, start: int) -> tuple[Proof, int]:
    layout = _PROOF_LAYOUTS.get(raw[start : start + 1])
    if layout is None:
        raise MalformedStatement(start, "unknown proof")
    kind, signature_width, signer_width = layout
    middle = start + 1 + signature_width
    end = middle + signer_width
    return Proof(kind, raw[start + 1 : middle], raw[middle:end]), end


def _data_bounds(raw: bytes, start: int) -> tuple[int, int]:
    """Where the data begins and claims to end. A length of 2^30 or more could not fit a statement."""
    width, minimum = _LENGTH_MODES[raw[start] & 0b11] if start < len(raw) else _LENGTH_MODES[0]
    first = start + width
    if first > len(raw):
        raise MalformedStatement(start, "field truncated")
    length = int.from_bytes(raw[start:first], "little") >> 2
    if length < minimum:
        raise MalformedStatement(start, "data length out of range or not minimal")
    return first, first + length


def _unsigned_fields(statement: Statement) -> list[bytes]:
    if len(statement.topics) > MAX_TOPICS:
        raise ValueError(f"a statement has at most {MAX_TOPICS} topics, not {len(statement.topics)}")
    if not 0 <= statement.expiry < 1 << 64:
        raise ValueError("expiry is an unsigned 64-bit integer")
    fixed = (statement.decryption_key, statement.expiry.to_bytes(8, "little"), statement.channel, *statement.topics)
    fields = [_field(tag, value) for tag, value in enumerate(fixed, _DECRYPTION_KEY) if value is not None]
    if statement.data is not None:
        fields.append(b"%c%b%b" % (_DATA, _compact(len(statement.data)), statement.data))
    return fields


def _field(tag: int, value: bytes) -> bytes:
    if len(value) != _WIDTHS[tag]:
        raise ValueError(f"field {tag} has {_WIDTHS[tag]} bytes, not {len(value)}")
    return b"%c%b" % (tag, value)


def _proof_field(proof: Proof) -> bytes:
    if (len(proof.signature), len(proof.signer)) != _PROOF_WIDTHS[proof.kind]:
        raise ValueError(f"signature and signer don't have the lengths of {proof.kind.name}")
    return b"%c%c%b%b" % (_PROOF, proof.kind.value, proof.signature, proof.signer)


def _compact(number: int) -> bytes:
    """SCALE's compact integer below 2^30: https://github.com/paritytech/parity-scale-codec"""
    if number < 1 << 6:
        return (number << 2).to_bytes(1, "little")
    if number < 1 << 14:
        return (number << 2 | 1).to_bytes(2, "little")
    return (number << 2 | 2).to_bytes(4, "little")
