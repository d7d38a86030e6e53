"""What an SMP server does at a command: changes queues, and says whom else that concerns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from local.simplex.codec import WireFault, WireReader, short
from local.simplex.keys import authorizes
from local.simplex.smp_queues import MessageQueue, MessageQueues, Notifier
from local.simplex.transmissions import WireTransmission

_OK, _AUTH = b"OK", b"ERR AUTH"


@dataclass(frozen=True)
class SmpReply:
    """`subscribed` is whom the session follows from now on, `removed` a notifier that is no more."""

    answer: bytes
    subscribed: Notifier | None = None
    removed: Notifier | None = None


@dataclass(frozen=True)
class SmpRequest:
    """A command of a session, whose id its authorization holds for."""

    queues: MessageQueues
    transmission: WireTransmission
    session_id: bytes

    def execute(self) -> SmpReply:
        tag, _, arguments = self.transmission.command.partition(b" ")
        if tag not in _COMMANDS:
            return SmpReply(b"ERR CMD UNKNOWN")
        try:
            return _COMMANDS[tag](self, WireReader(arguments))
        except WireFault:
            return SmpReply(b"ERR CMD SYNTAX")
        except KeyError:
            return SmpReply(_AUTH)

    def authorized_by(self, public_key: bytes) -> bool:
        return authorizes(public_key, self.transmission.auth, self.transmission.authorized(self.session_id))

    @property
    def queue(self) -> MessageQueue:
        """Its recipient's; raises `KeyError` if the command is not by that one."""
        queue = self.queues.of_recipient(self.transmission.entity)
        if not self.authorized_by(queue.recipient_key):
            raise KeyError(queue.recipient_id)
        return queue


def _ping(_: SmpRequest, arguments: WireReader) -> SmpReply:
    arguments.end()
    return SmpReply(b"PONG")


def _new(request: SmpRequest, arguments: WireReader) -> SmpReply:
    """The recipient's key authorises; what else there is to say of the queue is not read."""
    key = arguments.short()
    if not request.authorized_by(key):
        return SmpReply(_AUTH)
    queue = request.queues.add(key)
    return SmpReply(b"IDS " + short(queue.recipient_id) + short(queue.sender_id))


def _nkey(request: SmpRequest, arguments: WireReader) -> SmpReply:
    public_key, dh_public = arguments.short(), arguments.short()
    arguments.end()
    removed = request.queues.remove_notifier(request.queue)
    notifier, own = request.queues.set_notifier(request.queue, public_key, dh_public)
    return SmpReply(b"NID " + short(notifier.id) + short(own), removed=removed)


def _ndel(request: SmpRequest, arguments: WireReader) -> SmpReply:
    arguments.end()
    return SmpReply(_OK, removed=request.queues.remove_notifier(request.queue))


def _del(request: SmpRequest, arguments: WireReader) -> SmpReply:
    arguments.end()
    return SmpReply(_OK, removed=request.queues.remove(request.queue))


def _send(request: SmpRequest, arguments: WireReader) -> SmpReply:
    notify = {b"T ": True, b"F ": False}.get(arguments.take(2))
    if notify is None:
        raise WireFault("no flag of a message")
    request.queues.put(request.transmission.entity, arguments.rest(), notify=notify)
    return SmpReply(_OK)


def _get(request: SmpRequest, arguments: WireReader) -> SmpReply:
    """The oldest message, or OK if there is none."""
    arguments.end()
    if not (messages := request.queue.messages):
        return SmpReply(_OK)
    return SmpReply(b"MSG " + short(messages[0].id) + messages[0].body)


def _ack(request: SmpRequest, arguments: WireReader) -> SmpReply:
    message_id = arguments.short()
    messages = request.queue.messages
    if not messages or messages[0].id != message_id:
        return SmpReply(b"ERR NO_MSG")
    messages.popleft()
    return SmpReply(_OK)


def _nsub(request: SmpRequest, arguments: WireReader) -> SmpReply:
    arguments.end()
    notifier = request.queues.notifiers[request.transmission.entity]
    return SmpReply(_OK, subscribed=notifier) if request.authorized_by(notifier.public_key) else SmpReply(_AUTH)


_COMMANDS: Mapping[bytes, Callable[[SmpRequest, WireReader], SmpReply]] = {
    b"PING": _ping,
    b"NEW": _new,
    b"NKEY": _nkey,
    b"NDEL": _ndel,
    b"DEL": _del,
    b"SEND": _send,
    b"GET": _get,
    b"ACK": _ack,
    b"NSUB": _nsub,
}
