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

import re
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, NoReturn

from clarion.networks import Malformed

MAX_SIZE = 1_048_575
MAX_TOPICS = 4

_PROOF, _DECRYPTION_KEY, _EXPIRY, _CHANNEL, _TOPIC_1, _DATA = 0, 1, 2, 3, 4, 8
_TAGS = _DATA + 1
_VARIABLE = 0
_WIDTHS = (_VARIABLE, 32, 8, 32, 32, 32, 32, 32, _VARIABLE)
_FOLLOWERS = {  # which tags may come next: any higher one, but the topics from 2 on only after the one before
    last: frozenset(tag for tag in range(last + 1, _TAGS) if not (_TOPIC_1 < tag < _DATA) or tag == last + 1)
    for last in range(-1, _TAGS)
}
_SHAPE = re.compile(
    rb"""(?sx)
    .                                                                 # how many fields follow
    (?: \x00 ([\x00\x01]|\x02()) (.{64}(?(2).)) (.{32}(?(2).)) )?+    # proof; ECDSA's is wider by two bytes
    (?: \x01 (.{32}) )?+                                              # decryption key
    (?: \x02 (.{8}) )                                                 # expiry
    (?: \x03 (.{32}) )?+                                              # channel
    (?: \x04 (.{32}) (?: \x05 (.{32}) (?: \x06 (.{32}) (?: \x07 (.{32}) )?+ )?+ )?+ )?+
    (?: \x08 (.+) )?+                                                 # data, after its length
    """
)
"""All of the format but its two numbers. A loop over the fields would take several times as long."""
_UNHASHED = blake2b(digest_size=32)
_LENGTH_MODES = ((1, 0), (2, 1 << 6), (4, 1 << 14), (0, 1 << 30))
"""By a compact length's low two bits: its width, and the least length that needs it. The last is always too long."""


class MalformedStatement(Malformed):
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


_SIGNER = 4
"""The group of `_SHAPE`, which stands for the whole proof where fields are counted."""
_KINDS = {bytes([kind.value]): kind for kind in ProofKind}
_PROOF_WIDTHS = {  # of signature and signer
    ProofKind.SR25519: (64, 32),
    ProofKind.ED25519: (64, 32),
    ProofKind.ECDSA: (65, 33),
}


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

    @cached_property
    def signing_payload(self) -> bytes:
        """The bytes that the proof signs: every field but the proof, without the count."""
        return b"".join(_unsigned_fields(self))

    @property
    def hash(self) -> bytes:
        """BLAKE2b-256 of the encoding. The proof is part of it, so signing the same content again changes it."""
        return digest(self.encoded)

    @cached_property
    def encoded(self) -> bytes:
        return encode(self)


def digest(raw: bytes) -> bytes:
    """The hash of what is or may be a statement's encoding: also of bytes that `decode` refuses."""
    state = _UNHASHED.copy()  # quicker than to make one
    state.update(raw)
    return state.digest()


def decode(raw: bytes) -> Statement:
    """Raises `MalformedStatement`, and nothing else, for whatever is not a canonical statement."""
    shape = _SHAPE.fullmatch(raw)
    if shape is None or len(raw) > MAX_SIZE:
        _refuse(raw)
    groups = shape.groups()
    variant, _, signature, signer, decryption_key, expiry, channel, topic_1, topic_2, topic_3, topic_4, sized = groups
    count = _TAGS - groups[_SIGNER - 1 :].count(None)
    data = sized and _unsized(sized)
    if raw[0] != count << 2 or (sized and data is None):
        _refuse(raw)
    topics = (topic_1, topic_2, topic_3, topic_4)
    proof = variant and tuple.__new__(Proof, (_KINDS[variant], signature, signer))
    statement = tuple.__new__(  # not by its own constructor, whose detour costs as much again
        Statement,
        (
            int.from_bytes(expiry, "little"),
            topics[: MAX_TOPICS - topics.count(None)],
            data,
            channel,
            decryption_key,
            proof,
        ),
    )
    # A statement has only this one encoding, so there is no need to make it again.
    statement.encoded, statement.signing_payload = raw, raw[shape.end(_SIGNER) if proof else 1 :]
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


def _unsized(sized: bytes) -> bytes | None:
    """The data without its length; null if that is not how the length of just this data is written."""
    size = len(sized)
    width = 1 if size <= 1 << 6 else 2 if size <= 1 + (1 << 14) else 4
    return sized[width:] if sized[:width] == _compact(size - width) else None


def _refuse(raw: bytes) -> NoReturn:
    """Read field by field what `decode` has refused, to where it goes wrong first."""
    if len(raw) > MAX_SIZE:
        raise MalformedStatement(MAX_SIZE, "too long")
    if not raw or raw[0] & 0b11 or raw[0] >> 2 > _TAGS:
        raise MalformedStatement(0, "field count missing or out of range")
    offset, last = 1, -1
    for _ in range(raw[0] >> 2):
        if offset >= len(raw):
            raise MalformedStatement(offset, "field missing")
        tag, start = raw[offset], offset + 1
        if tag not in _FOLLOWERS[last]:
            raise MalformedStatement(offset, _tag_flaw(tag, last))
        offset, last = start + _claimed(raw, start, tag), tag
        if offset > len(raw):
            raise MalformedStatement(start, "field truncated")
    raise MalformedStatement(offset, "trailing bytes" if offset < len(raw) else "expiry missing")


def _tag_flaw(tag: int, last: int) -> str:
    if tag >= _TAGS:
        return "unknown tag"
    return "topic gap" if tag > last else "tag repeated or out of order"


def _claimed(raw: bytes, start: int, tag: int) -> int:
    """How many bytes a field has after its tag, or says that it has."""
    if tag == _DATA:
        return _claimed_data(raw, start)
    if tag != _PROOF:
        return _WIDTHS[tag]
    kind = _KINDS.get(raw[start : start + 1])
    if kind is None:
        raise MalformedStatement(start, "unknown proof")
    return 1 + sum(_PROOF_WIDTHS[kind])


def _claimed_data(raw: bytes, start: int) -> int:
    mark = raw[start] if start < len(raw) else 0
    width, minimum = _LENGTH_MODES[mark & 0b11]
    if start + width > len(raw):
        raise MalformedStatement(start, "field truncated")
    length = (mark if width == 1 else int.from_bytes(raw[start : start + width], "little")) >> 2
    if length < minimum:
        raise MalformedStatement(start, "data length out of range or not minimal")
    return width + length


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
