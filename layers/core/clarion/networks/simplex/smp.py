"""What a notifier sends to an SMP server, and receives from it: the client's side, at version 10.

    NSUB                    notifications of a queue are wanted, from now on by this session alone ──▶ OK, ERR
    PING                                                                                           ──▶ PONG
    NMSG nonce metadata     a message came into the queue; only its receiver can read the metadata
    END                     another session has subscribed to the queue
    DELD                    the queue, or its notifier, was deleted

The last three come unasked, without a correlation id; NMSG is never acknowledged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nacl.public import PublicKey

from clarion.networks.simplex.blocks import batched
from clarion.networks.simplex.credentials import SigningKey, authorize
from clarion.networks.simplex.encoding import MalformedSimplex, Reader
from clarion.networks.simplex.errors import ErrorType, read_error
from clarion.networks.simplex.items import MESSAGE_NONCE_BYTES, MOST_METADATA_BYTES, MessageArrived
from clarion.networks.simplex.transmissions import Transmission, read_transmission


class SmpSignal(StrEnum):
    """What has no arguments: two answers, and two events."""

    OK = "OK"
    PONG = "PONG"
    END = "END"
    DELETED = "DELD"


type SmpContent = SmpSignal | MessageArrived | ErrorType


@dataclass(frozen=True, slots=True)
class SmpTransmission:
    """`correlation_id` is empty for an event, and for an error if the server could not read ours."""

    correlation_id: bytes
    notifier_id: bytes = field(repr=False)
    content: SmpContent


_EVENTS = {SmpSignal.END, SmpSignal.DELETED}
_SIGNALS = {signal.encode(): signal for signal in SmpSignal}
_MESSAGE, _ERROR = b"NMSG ", b"ERR "


def subscribe(
    notifier_id: bytes, key: SigningKey, correlation_id: bytes, session_id: bytes, server_key: PublicKey
) -> bytes:
    """The transmission that subscribes to a queue; `server_key` is of the server's hello. Raises `MalformedSimplex`."""
    plain = Transmission(correlation_id, notifier_id, b"NSUB")
    authorization = authorize(plain.signed(session_id), correlation_id, key, server_key)
    return replace(plain, authorization=authorization).encoded


def ping(correlation_id: bytes) -> bytes:
    return Transmission(correlation_id, b"", b"PING").encoded


def read_block(block: bytes) -> Sequence[SmpTransmission]:
    """Raises `MalformedSimplex` if any of its transmissions is none that a notifier receives."""
    return [_read(read_transmission(raw)) for raw in batched(block)]


def _read(transmission: Transmission) -> SmpTransmission:
    content = _content(transmission.command)
    if _is_event(content) and (transmission.correlation_id or not transmission.entity_id):
        raise MalformedSimplex("an event that answers, or of no queue")
    return SmpTransmission(transmission.correlation_id, transmission.entity_id, content)


def _is_event(content: SmpContent) -> bool:
    return isinstance(content, MessageArrived) or content in _EVENTS


def _content(command: bytes) -> SmpContent:
    if signal := _SIGNALS.get(command):
        return signal
    if command.startswith(_MESSAGE):
        return _message(Reader(command.removeprefix(_MESSAGE)))
    if command.startswith(_ERROR):
        return read_error(command.removeprefix(_ERROR))
    raise MalformedSimplex("nothing that a notifier receives")


def _message(reader: Reader) -> MessageArrived:
    message = MessageArrived(reader.take(MESSAGE_NONCE_BYTES), reader.short())
    reader.end()
    if not 0 < len(message.metadata) <= MOST_METADATA_BYTES:
        raise MalformedSimplex("a message without metadata, or with more than any has")
    return message
