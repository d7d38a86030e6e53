"""The queues of an SMP server, which outlive it: their messages, who is notified, and of what."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from os import urandom

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from local.simplex.codec import i64, padded, short
from local.simplex.keys import NONCE, SharedBox, dh_public_key, spki

RETENTION_S = 86_400
_ID = 24
_META = 128
"""Bytes that a message's metadata are padded to before they are sealed."""


@dataclass(frozen=True)
class StoredMessage:
    id: bytes
    at: int
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Notifier:
    """Who may be notified of a queue's messages; `box` seals what only the recipient reads."""

    id: bytes
    public_key: bytes
    box: SharedBox = field(repr=False)

    def notification(self, message: StoredMessage) -> "WaitingNotification":
        nonce = urandom(NONCE)
        meta = padded(short(message.id) + i64(message.at), _META)
        return WaitingNotification(message.at, nonce, self.box.seal(nonce, meta))


@dataclass(frozen=True)
class WaitingNotification:
    """`meta` is sealed: 144 bytes."""

    at: int
    nonce: bytes
    meta: bytes

    @property
    def event(self) -> bytes:
        return b"NMSG " + self.nonce + short(self.meta)


@dataclass
class MessageQueue:
    recipient_id: bytes
    sender_id: bytes
    recipient_key: bytes
    messages: deque[StoredMessage] = field(default_factory=deque)
    notifier: Notifier | None = None


class MessageQueues:
    """In memory. `now` is in seconds. Whoever asks for a queue that is not there gets a `KeyError`."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self.notifiers: dict[bytes, Notifier] = {}
        self._of_recipients: dict[bytes, MessageQueue] = {}
        self._of_senders: dict[bytes, MessageQueue] = {}
        self._waiting: dict[bytes, list[WaitingNotification]] = {}

    def add(self, recipient_key: bytes) -> MessageQueue:
        queue = MessageQueue(urandom(_ID), urandom(_ID), recipient_key)
        self._of_recipients[queue.recipient_id] = self._of_senders[queue.sender_id] = queue
        return queue

    def of_recipient(self, recipient_id: bytes) -> MessageQueue:
        return self._of_recipients[recipient_id]

    def remove(self, queue: MessageQueue) -> Notifier | None:
        """The notifier that went with it."""
        del self._of_recipients[queue.recipient_id], self._of_senders[queue.sender_id]
        return self.remove_notifier(queue)

    def set_notifier(self, queue: MessageQueue, public_key: bytes, dh_public: bytes) -> tuple[Notifier, bytes]:
        """A new one, and the public key by which the recipient comes to the same secret."""
        own = X25519PrivateKey.generate()
        notifier = Notifier(urandom(_ID), public_key, SharedBox.between(own, dh_public_key(dh_public)))
        queue.notifier = self.notifiers[notifier.id] = notifier
        return notifier, spki(own.public_key())

    def remove_notifier(self, queue: MessageQueue) -> Notifier | None:
        removed, queue.notifier = queue.notifier, None
        if removed:
            del self.notifiers[removed.id]
            self._waiting.pop(removed.id, None)
        return removed

    def put(self, sender_id: bytes, body: bytes, *, notify: bool) -> StoredMessage:
        queue = self._of_senders[sender_id]
        message = StoredMessage(urandom(_ID), int(self.now()), body)
        queue.messages.append(message)
        if notify and queue.notifier:
            self._waiting.setdefault(queue.notifier.id, []).append(queue.notifier.notification(message))
        return message

    def has_waiting(self, notifier_id: bytes) -> bool:
        return notifier_id in self._waiting

    def take_waiting(self, notifier_ids: Iterable[bytes]) -> dict[bytes, list[WaitingNotification]]:
        """What waits for these and is not too old; it no longer does."""
        oldest = self.now() - RETENTION_S
        waiting = {each: self._waiting.pop(each) for each in [*notifier_ids] if each in self._waiting}
        return {each: [one for one in found if one.at >= oldest] for each, found in waiting.items()}
