"""What the NTF server reads from one block and writes into others, in one session.

    block ──requests──▶ NtfRequest, or the NtfReply that refuses it … ──reply_blocks──▶ blocks

A reply goes by the request's correlation id, in any order. None is authorized.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nacl.public import PrivateKey, PublicKey

from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES, batch_blocks, batched, pad, unpad
from clarion.networks.simplex.credentials import AUTHORIZATION_BYTES, AuthorizationKey, dh_der, is_authorized
from clarion.networks.simplex.encoding import MalformedSimplex, short
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.handshakes import BATCHES_VERSION
from clarion.networks.simplex.ntf_commands import NtfCommand, NtfRefusal, read_command
from clarion.networks.simplex.statuses import TokenStatus
from clarion.networks.simplex.transmissions import Transmission, read_transmission

OK = b"OK"
PONG = b"PONG"


@dataclass(frozen=True, slots=True)
class NtfSession:
    """`id` is TLS's, `key` the one that the server has signed in its hello. `peer` is who counts as one in bounds."""

    id: bytes = field(repr=False)
    version: int
    key: PrivateKey = field(repr=False)
    peer: str = field(default="", repr=False)

    @property
    def has_batches(self) -> bool:
        """If not, each transmission names the session, and has a block of its own."""
        return self.version >= BATCHES_VERSION


@dataclass(frozen=True, slots=True)
class NtfReply:
    """`content` is one of the constants above, or made by a function below."""

    correlation_id: bytes
    entity_id: bytes = field(repr=False)
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NtfRequest:
    """A command, to be executed if it `is_authorized_by` the right key; a ping needs none."""

    command: NtfCommand
    transmission: Transmission
    session: NtfSession

    def is_authorized_by(self, key: AuthorizationKey | None) -> bool:
        """None takes as long: whether there is such a token doesn't show."""
        signed, nonce = self.transmission.signed(self.session.id), self.transmission.correlation_id
        return is_authorized(self.transmission.authorization, signed, nonce, key, self.session.key)

    def reply(self, content: bytes) -> NtfReply:
        return _reply(self.transmission, content)


def requests(block: bytes, session: NtfSession) -> Iterator[NtfRequest | NtfReply]:
    """One for each transmission: a request, or the refusal of what can't be read."""
    try:
        transmissions = batched(block) if session.has_batches else (unpad(block),)
    except MalformedSimplex:
        # Nothing of it can be answered but that it is no block, as if this were its transmission.
        transmissions = (b"",)
    return (_request(transmission, session) for transmission in transmissions)


def reply_blocks(replies: Iterable[NtfReply], session: NtfSession) -> Iterator[bytes]:
    named = None if session.has_batches else session.id
    transmissions = (Transmission(one.correlation_id, one.entity_id, one.content, session_id=named) for one in replies)
    encoded = (transmission.encoded for transmission in transmissions)
    if session.has_batches:
        return batch_blocks(encoded, NTF_BLOCK_BYTES)
    return (pad(transmission, NTF_BLOCK_BYTES) for transmission in encoded)


def token_registered(token_id: bytes, key: PublicKey) -> bytes:
    """`key` is the server's half of what pushes are encrypted by."""
    return b"IDTKN " + short(token_id) + short(dh_der(key))


def token_status(status: TokenStatus, version: int) -> bytes:
    return b"TKN " + status.text(version).encode()


def queue_subscribed(subscription_id: bytes) -> bytes:
    return b"IDSUB " + short(subscription_id)


def queue_status(status: str) -> bytes:
    """`status` is a `QueueStatus`, or what `statuses.refused` made of an error."""
    return b"SUB " + status.encode()


def refusal(error: ErrorType) -> bytes:
    return b"ERR " + error.encode()


def _request(raw: bytes, session: NtfSession) -> NtfRequest | NtfReply:
    try:
        transmission = read_transmission(raw, names_session=not session.has_batches)
    except MalformedSimplex:
        return NtfReply(b"", b"", refusal(ErrorType.BLOCK))
    try:
        return NtfRequest(_command(transmission, session), transmission, session)
    except NtfRefusal as refused:
        return _reply(transmission, refusal(refused.error))


def _command(transmission: Transmission, session: NtfSession) -> NtfCommand:
    if len(transmission.authorization) not in AUTHORIZATION_BYTES:
        raise NtfRefusal(ErrorType.BLOCK)
    if transmission.session_id not in {None, session.id}:
        raise NtfRefusal(ErrorType.SESSION)
    authorized, entity = bool(transmission.authorization), bool(transmission.entity_id)
    return read_command(transmission.command, has_authorization=authorized, has_entity=entity)


def _reply(transmission: Transmission, content: bytes) -> NtfReply:
    return NtfReply(transmission.correlation_id, transmission.entity_id, content)
