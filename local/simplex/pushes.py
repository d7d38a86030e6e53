"""What a device finds in a push: the code, or the items of several queues, each sealed twice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local.simplex.agent_state import AgentQueue
from local.simplex.codec import WireFault, WireReader, b64, unb64, unpadded
from local.simplex.keys import SharedBox

_SCHEME = "smp://"


@dataclass(frozen=True)
class PushedItem:
    """Of one queue: what the notification server knows, with the SMP server's metadata sealed in it."""

    key_hash: bytes
    hosts: tuple[str, ...]
    port: str
    notifier_id: bytes
    at: int
    nonce: bytes
    meta: bytes = field(repr=False)

    @classmethod
    def parsed(cls, text: str) -> "PushedItem":
        """Raises `WireFault` if it is none."""
        try:
            queue, at, nonce, meta = text.split(" ")
            key_hash, place = queue.removeprefix(_SCHEME).split("@")
            server, notifier_id = place.split("/")
        except ValueError as error:
            raise WireFault("no item of a push") from error
        hosts, _, port = server.partition(":")
        if not (queue.startswith(_SCHEME) and key_hash and notifier_id and nonce and meta):
            raise WireFault("no item of a push")
        return cls(
            unb64(key_hash), tuple(hosts.split(",")), port, unb64(notifier_id), int(at), unb64(nonce), unb64(meta)
        )

    @property
    def place(self) -> tuple[tuple[str, ...], str, bytes]:
        return self.hosts, self.port, self.notifier_id


@dataclass(frozen=True)
class AgentNotification:
    """A message that waits at `queue`, as its SMP server said: its id, and when it came there."""

    queue: AgentQueue
    message_id: bytes
    message_at: int
    item: PushedItem


def opened(secret: bytes, data: Mapping[str, Any], name: str) -> bytes:
    """What the notification server has sealed; `name` is `verification` or `message`. Raises `WireFault`."""
    return unpadded(SharedBox(secret).open(unb64(data["nonce"]), unb64(data[name])))


def notifications(items: Iterable[PushedItem], queues: Iterable[AgentQueue]) -> list[AgentNotification]:
    """Those of known queues; all but the last only if they are news, for a push repeats what others have brought."""
    by_place = {each.place: each for each in queues if each.notifier_id}
    [*earlier, last] = [_read(each, by_place[each.place]) if each.place in by_place else None for each in items]
    return [each for each in (*filter(_is_news, earlier), last) if each]


def items_in(text: bytes) -> list[PushedItem]:
    return [PushedItem.parsed(each) for each in text.decode().split(";")]


def _read(item: PushedItem, queue: AgentQueue) -> AgentNotification:
    reader = WireReader(unpadded(SharedBox(queue.notifier_secret).open(item.nonce, item.meta)))
    return AgentNotification(queue, reader.short(), reader.i64(), item)


def _is_news(notification: AgentNotification | None) -> bool:
    if notification is None:
        return False
    last_seen = notification.queue.last_seen
    return last_seen is None or notification.message_at > last_seen


def as_item(item: PushedItem) -> str:
    """The text that it was parsed from."""
    port = f":{item.port}" if item.port else ""
    queue = f"{_SCHEME}{b64(item.key_hash)}@{','.join(item.hosts)}{port}/{b64(item.notifier_id)}"
    return f"{queue} {item.at} {b64(item.nonce)} {b64(item.meta)}"
