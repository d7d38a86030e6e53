"""Workers race for one pair: the real admission, but which of them goes on after each request is drawn by lot.

Clock, limits, how late each observation comes, and who asks for what are drawn as well; a seed names the whole course.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Semaphore, Thread, current_thread
from typing import Any, NamedTuple
from uuid import UUID

from botocore.model import OperationModel

from clarion.channels import Channel
from clarion.decisions import NotificationDecision, Wanted
from clarion.limiter import LATENESS, Limit, unpack
from clarion.networks import STATEMENTS
from match.admission import Admission, Notification
from match.caps import Caps
from match.claims import Claims
from match.matching import Match, Subscriber
from match.windows import Windows
from match.worker import MatchClients
from tests.match.dictionary import Dictionary
from tests.match.scene import NEVER, NOW, PREFIX, decide

SUBSCRIBERS = [
    Subscriber(str(UUID(int=number)), b"c" * 32, Channel.APNS, active=True, generation=1) for number in range(2)
]
"""Subscriptions of one client."""
PAIR_LIMIT = Limit(30, 60_000, 120_000)
WORKERS = 4
CLOCKS_APART = 600
"""Milliseconds, at most."""


class Race(NamedTuple):
    """How it went: `lost` writes came too late, which is what a race is about."""

    lost: int
    flaws: list[str]


class Table(Dictionary):
    """Answers once `turn` lets the caller go on, and keeps in mind who was ever `counted`, and when."""

    def __init__(self, turn: Callable[[], None], *, lax: bool) -> None:
        super().__init__(lax=lax)
        self.counted: dict[bytes, int] = {}
        self._turn = turn

    def answer(self, model: OperationModel, context: dict[str, Any], **_: object) -> Any:
        self._turn()
        return super().answer(model, context)

    def put(self, asked: dict[str, Any]) -> Any:
        status, parsed = super().put(asked)
        if "Error" not in parsed and "version" in asked["Item"]:
            self.counted |= {one.mark: one.at for one in unpack(asked["Item"]["admitted"]["B"])}
        return status, parsed


@dataclass
class Turns:
    """One thread goes on at a time, and gives way at each request to whom the lot chooses."""

    lot: random.Random
    _free: Semaphore = field(default_factory=lambda: Semaphore(0))
    _mine: dict[str, Semaphore] = field(default_factory=dict)

    def wait(self) -> None:
        self._free.release()
        self._mine[current_thread().name].acquire()

    def run(self, works: Sequence[Callable[[], None]], between: Callable[[], None]) -> None:
        going = [self._start(str(number), work) for number, work in enumerate(works)]
        while going:
            thread = self.lot.choice(going)
            self._mine[thread.name].release()
            self._free.acquire()
            between()
            going = [thread for thread in going if thread.name in self._mine]

    def _start(self, name: str, work: Callable[[], None]) -> Thread:
        def whole() -> None:
            self._mine[name].acquire()
            try:
                work()
            finally:
                del self._mine[name]
                self._free.release()

        self._mine[name] = Semaphore(0)
        thread = Thread(target=whole, name=name, daemon=True)
        thread.start()
        return thread


@dataclass
class Course:
    """What a seed names: `now` moves on between the requests, and each worker's clock is a little off."""

    seed: int

    def __post_init__(self) -> None:
        self._lot = random.Random(self.seed)
        self._now = NOW
        self._made = 0
        self.limit = self._limit()
        self._latest = self._lot.choice((0, 0, self.limit.window, LATENESS - 600_000))
        self._observed: dict[UUID, int] = {}
        self._receipts: dict[bytes, set[UUID]] = defaultdict(set)
        self.decided: dict[tuple[UUID, str], set[NotificationDecision]] = defaultdict(set)
        self.queued: set[bytes] = set()

    def _limit(self) -> Limit:
        if self._lot.random() < 0.2:
            return PAIR_LIMIT
        return Limit(self._lot.randint(1, 6), self._lot.randint(1, 60_000), self._lot.randint(0, 120_000))

    def run(self, clients: MatchClients, *, lax: bool) -> Race:
        turns = Turns(self._lot)
        table = Table(turns.wait, lax=lax)
        batches = [[self._batch() for _ in range(self._lot.randint(1, 4))] for _ in range(WORKERS)]
        if self._lot.random() < 0.5:
            batches[1][0] = batches[0][0]  # brought again while it is still being worked on
        works = [self._worker(own, clients) for own in batches]
        with table.answering(clients):
            turns.run(works, self._move_on)
        return Race(table.lost, list(self._flaws(table.counted)))

    def _batch(self) -> list[Notification]:
        """Some are for two subscriptions of the client, some for the second by another receipt."""
        batch: list[Notification] = []
        for _ in range(self._lot.randint(1, 2 + self.limit.count // 2)):
            first = self._notification()
            batch.append(first)
            if self._lot.random() < 0.2:
                receipt = first.receipt if self._lot.random() < 0.5 else self._notification().receipt
                match = first.match._replace(subscriber=SUBSCRIBERS[1])
                batch.append(first._replace(match=match, receipt=receipt))
        self._lot.shuffle(batch)
        for notification in batch:
            self._receipts[notification.mark].add(notification.receipt)
        return batch

    def _notification(self) -> Notification:
        self._made += 1
        statement = self._made.to_bytes(32)
        match = Match(SUBSCRIBERS[0], b"t" * 32, Wanted.ALERT)
        return Notification(STATEMENTS, UUID(int=self._made), NOW, statement, b"s" * 32, NEVER, match)

    def _worker(self, batches: Sequence[Sequence[Notification]], clients: MatchClients) -> Callable[[], None]:
        skew = self._lot.choice((0, 0, -CLOCKS_APART // 2, CLOCKS_APART // 2))
        claims, windows = Claims(clients.dynamodb), Windows(clients.dynamodb)
        caps = Caps(clients.dynamodb, Limit(10_000, 60_000, 0), WORKERS)
        admission = Admission(lambda _: self.limit, claims, windows, caps, lambda: self._now + skew)

        def work() -> None:
            for batch in batches:
                asking = [self._shown(notification) for notification in batch]
                for notification, result in zip(asking, decide(admission, asking), strict=True):
                    self.decided[notification.receipt, notification.subscription_id].add(result.decision)
                    if result.decision is NotificationDecision.QUEUED:
                        self.queued.add(notification.mark)

        return work

    def _shown(self, notification: Notification) -> Notification:
        """Observed when it was asked for first, or some time before."""
        observed_at = self._observed.setdefault(notification.receipt, self._now - self._lot.randint(0, self._latest))
        return notification._replace(observed_at=observed_at)

    def _move_on(self) -> None:
        self._now += self._lot.choice((0, 1, self.limit.window // 50, self.limit.window // 4))

    def _flaws(self, counted: Mapping[bytes, int]) -> Iterator[str]:
        times = list(counted.values())
        fullest = max((sum(0 <= at - first < self.limit.window for at in times) for first in times), default=0)
        if fullest > self.limit.count:
            yield f"{fullest} of {self.limit.count} admitted within a window"
        if self.queued != counted.keys():
            yield "queued is not what was counted"
        if {receipt for receipt, _ in self.decided} != self._observed.keys():
            yield "not all were decided"
        if any(len(self.decided[key]) > 1 for key in self._with_one_receipt()):
            yield "decided one way and then the other"
        limited = any(NotificationDecision.RATE_LIMITED in decisions for decisions in self.decided.values())
        if limited and fullest < self.limit.count:
            yield "some were refused before the limit was reached"

    def _with_one_receipt(self) -> Iterator[tuple[UUID, str]]:
        """Those of statements that were observed once: a second observation may pass, and takes the first along."""
        single = {receipt for receipts in self._receipts.values() if len(receipts) == 1 for receipt in receipts}
        return (key for key in list(self.decided) if key[0] in single)


def run(seeds: Iterable[int], *, lax: bool = False) -> list[Race]:
    clients = MatchClients.make(PREFIX)
    return [Course(seed).run(clients, lax=lax) for seed in seeds]
