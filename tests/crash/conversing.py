"""Scenario: a wallet of WalletConnect's subscribes, changes its scope, is notified, says so, and unsubscribes, while
another phone of its account watches.

Each message of the wallet comes until it is done with.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import urandom
from typing import TYPE_CHECKING, Any

from clarion.decisions import PushDecision
from clarion.event_log import EventLog
from clarion.events import EnvelopeObserved, Event, PushTried
from clarion.messages import read_match_message
from clarion.networks.walletconnect.notifications import SentNotification
from clarion.networks.walletconnect.relay import Publication
from clarion.networks.walletconnect.relay_publisher import PublishOutcome
from clarion.networks.walletconnect.topics import find_topic
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.walletconnect_worker.stage import FIRST_TYPE, SECOND_TYPE, Clock, KeptPublications, Phone, Stage, deploy

if TYPE_CHECKING:
    from clarion.networks.walletconnect.commands import WalletConnectCommand

EXPECTED = {4001: 1, 4002: 1, 4005: 1, 4009: 1, 4012: 3}
"""How many messages there are of each tag, however often each was published."""


class StoppablePublications(KeptPublications):
    """The process may stop before a message is published, and after it."""

    def publish(self, publications: Sequence[Publication]) -> list[PublishOutcome]:
        wire.step(RETURN)
        outcomes = super().publish(publications)
        wire.step(RETURN)
        return outcomes


class WrittenEvents(EventLog):
    """What is in the lake outlasts the process; what is yet to be written doesn't."""

    def __init__(self, written: list[Event]) -> None:
        self._written = written
        self._events: list[Event] = []

    def add(self, event: Event) -> None:
        self._events.append(event)

    def flush(self) -> int:
        self._written += self._events
        self._events = []
        return 0


@dataclass
class Conversation:
    """Each step takes a second, whether it is done again or not."""

    _written: list[Event] = field(default_factory=list)
    _record: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self._clock, self._relay = Clock(), StoppablePublications()
        self._stage = self._new_process()
        self._key_servers = self._stage.key_servers
        self._phone = self._stage.phone(urandom(32))
        self._other = Phone(clock=self._clock, wallet=self._phone.wallet.with_identity_key(urandom(32)))
        self._key_servers.known[self._other.wallet.identity_public_key] = self._other.wallet.cacao(
            statement=self._key_servers.known[self._phone.wallet.identity_public_key]["p"]["statement"]
        )
        self._stage.handle(self._other.watch(app=None))
        self._relay.published.clear()
        self._steps: list[Callable[[], WalletConnectCommand]] = [
            self._phone.subscribe,
            lambda: self._subscribed().update(FIRST_TYPE),
            lambda: self._stage.notify(self._phone),
            lambda: self._phone.receipt(self._published(4002)),
            self._phone.delete,
        ]

    def deliver(self) -> bool:
        while self._steps:
            with wire.aside():
                self._record = self._received_again() or self._stage.record(self._steps[0]())
            unfinished = self._stage.worker.handle([self._record])
            self._stage.worker.outbox.events.flush()
            wire.step(RETURN)
            if unfinished:
                return False
            self._record = None
            del self._steps[0]
            self._clock.now += 1
        return True

    def _received_again(self) -> dict[str, Any] | None:
        return self._record and {
            **self._record,
            "attributes": {**self._record["attributes"], "ApproximateReceiveCount": "2"},
        }

    def stop(self) -> None:
        with wire.aside():
            key_servers = self._stage.key_servers
            self._stage = self._new_process()
            self._stage.key_servers.known = key_servers.known

    def check(self) -> None:
        distinct = {(one.tag, one.topic, one.message) for one in self._relay.published}
        counts = {tag: sum(each == tag for each, *_ in distinct) for tag, *_ in distinct}
        assert counts == EXPECTED, f"published are {counts}"
        row = self._stage.row(self._phone)
        assert not row.is_active, "the subscription has not ended"
        assert find_topic(row.topic) is None, "its topic is still followed"
        [kept] = SentNotification.query(row.subscription_id)
        assert kept.received_at, "the notification is not received"
        self._check_receipts()

    def _check_receipts(self) -> None:
        receipts = {read_match_message(body).receipt for body in self._stage.envelopes()}
        observed = {one.receipt for one in self._written if isinstance(one, EnvelopeObserved)}
        tried = [one for one in self._written if isinstance(one, PushTried)]
        assert len(receipts) == 1, "match has not one notification"
        assert receipts == observed == {one.receipt for one in tried}, "the lake knows of others than match"
        assert {one.decision for one in tried} == {PushDecision.RECEIVED}, "the lake does not know that it is received"

    def _subscribed(self) -> Phone:
        self._phone.sym_key = self._stage.row(self._phone).sym_key
        assert self._stage.row(self._phone).types == {FIRST_TYPE, SECOND_TYPE}, "the scope is not the one asked for"
        return self._phone

    def _published(self, tag: int) -> Publication:
        return next(one for one in self._relay.published if one.tag == tag)

    def _new_process(self) -> Stage:
        return Stage.make(self._clock, relay=self._relay, events=WrittenEvents(self._written))


def scenario() -> Scenario:
    deploy()
    return Scenario("conversing", Conversation)
