"""A page over made-up events: what the lake would bring, without a lake."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import batched
from typing import Any
from uuid import UUID, uuid4

from starlette.exceptions import HTTPException

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import EnvelopeDecided, Event, NotificationDecided, PushTried
from clarion.networks import STATEMENTS
from console.page.app import PageBackend
from console.page.broadcast import Reading
from console.page.deployed import about
from console.page.items import RecentItems

PHONES = (Channel.APNS, Channel.FCM, Channel.WEBPUSH)


def trail(
    number: int,
    *,
    at: int | None = None,
    decision: EnvelopeDecision = EnvelopeDecision.MATCHED,
    notification: NotificationDecision = NotificationDecision.QUEUED,
    pushes: Mapping[Channel, PushDecision] | None = None,
    network: str = STATEMENTS,
    reason: str | None = None,
) -> Iterator[Event]:
    """All that becomes of one envelope, from `at` on; by default three phones get it."""
    at = now_ms() if at is None else at
    common: dict[str, Any] = {
        "network": network,
        "receipt": uuid4(),
        "envelope_id": blake2b(number.to_bytes(8), digest_size=32).digest(),
    }
    yield EnvelopeDecided(
        **common, at=at + 40, observed_at=at, decision=decision, sender=bytes([number % 256]) * 32, reason=reason
    )
    if decision is not EnvelopeDecision.MATCHED:
        return
    outcomes = dict.fromkeys(PHONES, PushDecision.DELIVERED) if pushes is None else pushes
    for channel, outcome in outcomes.items():
        to = {"subscription_id": UUID(int=len(channel)), "channel": channel}
        key = b"\x01" + bytes(64)
        yield NotificationDecided(**common, **to, at=at + 60, decision=notification, client_id=bytes(32), key=key)
        if notification is NotificationDecision.QUEUED:
            yield PushTried(
                **common, **to, at=at + 180, decision=outcome, attempt=1, latency_ms=180, status=200, reason=reason
            )


class MadeUpPage:
    """Its backend; `put` is what the lake brings next, `events` are the other readings' data, sent once."""

    def __init__(self, *, local: bool = True, **events: Any) -> None:
        self.items = RecentItems()
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.reads = 0
        self.why_fails = False
        self.refusal: Exception | None = None
        """What actions are refused with."""
        self.fault: Exception | None = None
        self._local = local
        self._lines: list[bytes] = []
        self._events = events

    def put(self, events: Iterable[Event]) -> None:
        self._lines += [event.to_line() for event in events]

    @property
    def backend(self) -> PageBackend:
        others = [Reading(name, 3600, _once(data), 1) for name, data in self._events.items()]
        return PageBackend(
            about=about("clarion made-up", "account 111111111111", local=self._local),
            readings=[Reading("items", 0.1, self._read, snapshot=self.items.snapshot), *others],
            why=self._why,
            actions={"send": self._act("send"), "switch": self._act("switch")} if self._local else {},
        )

    async def _read(self) -> list[dict[str, Any]] | None:
        self.reads += 1
        if self.fault:
            raise self.fault
        lines, self._lines = self._lines, []
        return [item.model_dump(mode="json") for item in self.items.add(lines)] or None

    async def _why(self, key: str) -> Any:
        if self.why_fails:
            raise HTTPException(500)
        return self.items.report(key)

    def _act(self, name: str) -> Callable[[Mapping[str, Any]], Any]:
        async def act(asked: Mapping[str, Any]) -> None:
            self.asked.append((name, asked))
            if self.refusal:
                raise self.refusal

        return act


def _once(data: Any) -> Callable[[], Any]:
    async def read() -> Any:
        return data

    return read


async def flow(page: MadeUpPage, trails: Iterable[Iterable[Event]], seconds: float, at_once: int) -> None:
    """So many trails at a time, evenly."""
    for some in batched(trails, at_once, strict=False):
        for one in some:
            page.put(one)
        await asyncio.sleep(seconds)
