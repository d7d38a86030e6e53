"""Scenario: XMTP's envelopes through match. A friend's message that two nodes show, one's own, at a rollover of periods,
a reaction, and one that is too large for the queue.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import boto3

from clarion.channels import Channel
from clarion.decisions import NotificationDecision, Wanted
from clarion.messages import MatchMessage, PushMessage
from clarion.networks import XMTP, network
from clarion.networks.xmtp.sender_hmac import period_at
from match.settings import MatchSettings
from match.worker import MatchClients
from tests.crash.harness import RETURN, Scenario
from tests.crash.lake import recorded_events
from tests.crash.wire import wire
from tests.match.scene import NOW, PREFIX, InTurn, Scene, received
from tests.xmtp import Inbox

AT = NOW // 1000
SECONDS_BETWEEN_DELIVERIES = 180
TOO_LARGE = 300_000
"""Bytes that the queue doesn't take."""
PASSED = {NotificationDecision.QUEUED, NotificationDecision.DUPLICATE}

type Wants = Mapping[str, Wanted]
"""How each subscription wants an envelope."""


@dataclass
class Messaging:
    settings: MatchSettings
    clients: MatchClients

    def __post_init__(self) -> None:
        self._numbers = count()
        self._scene = Scene(self.settings, self.clients)
        self._waiting: dict[str, str] = {}
        self._wanted: dict[bytes, Wants] = {}
        self._receipts: dict[str, bytes] = {}
        group = uuid4().bytes
        self._alix, self._bo = Inbox(b"alix", group), Inbox(b"bo", group)
        phone, tablet = self._install(self._alix, Channel.APNS), self._install(self._alix, Channel.FCM, silent=True)
        friend = self._install(self._bo, Channel.APNS)
        own = {phone: Wanted.OWN_MESSAGE, tablet: Wanted.OWN_MESSAGE, friend: Wanted.ALERT}
        friends = {phone: Wanted.ALERT, tablet: Wanted.BACKGROUND, friend: Wanted.OWN_MESSAGE}
        unwanted = {phone: Wanted.NOT_PUSHABLE, tablet: Wanted.NOT_PUSHABLE, friend: Wanted.OWN_MESSAGE}
        self._show(self._bo.message(AT, b"hello"), friends)
        self._show(self._bo.message(AT + 1, b"hello"), friends)
        self._show(self._alix.message(AT, b"late", period=period_at(AT) - 1), own)
        self._show(self._bo.message(AT, b"a heart", should_push=False), unwanted)
        self._show(self._bo.message(AT, bytes(TOO_LARGE)), friends, large=True)

    def _install(self, inbox: Inbox, channel: Channel, *, silent: bool = False) -> str:
        return self._scene.subscribe_to(XMTP, [inbox.rule(AT, silent=silent)], channel=channel).subscription_id

    def _show(self, raw: bytes, wanted: Wants, *, large: bool = False) -> None:
        message = self._scene.show(XMTP, raw)
        envelope_id = network(XMTP).decode(raw).id
        self._wanted[envelope_id], self._receipts[str(message.receipt)] = wanted, envelope_id
        if large:
            boto3.client("s3").put_object(Bucket="oversize", Key=str(message.receipt), Body=raw)
            message = message.model_copy(update={"raw": None, "location": str(message.receipt)})
        self._enqueue(message)

    def _enqueue(self, message: MatchMessage) -> None:
        self._waiting[str(next(self._numbers))] = message.to_json()

    # ---- what the harness asks for ----------------------------------------------------------------------------

    def deliver(self) -> bool:
        with wire.aside():
            for message in self._scene.again():
                self._enqueue(message)
        if not self._waiting:
            return True
        try:
            unfinished = self._scene.worker.handle([received(number, body) for number, body in self._waiting.items()])
        finally:
            self._scene.clock.advance(SECONDS_BETWEEN_DELIVERIES)
        wire.step(RETURN)
        self._waiting = {number: body for number, body in self._waiting.items() if number in unfinished}
        return False

    def stop(self) -> None:
        self._scene = self._scene.elsewhere()

    def check(self) -> None:
        self._check_pushes(self._scene.pushes())
        events = recorded_events(self.settings.late_events_queue_url)
        self._check_decisions([event for event in events if event["event"] == "notification"])

    def _check_pushes(self, pushes: list[PushMessage]) -> None:
        queued = {(push.envelope_id, str(push.subscription_id), push.wanted) for push in pushes}
        wanted = {
            (envelope_id, subscription, how)
            for envelope_id, wants in self._wanted.items()
            for subscription, how in wants.items()
            if how.pushes
        }
        assert queued == wanted, "what was queued is not what was wanted"
        receipts = defaultdict(set)
        for push in pushes:
            receipts[push.envelope_id, push.subscription_id].add(push.receipt)
        assert all(len(one) == 1 for one in receipts.values()), "two receipts of one envelope were queued"
        repeats = Counter((push.envelope_id, push.subscription_id) for push in pushes)
        assert max(repeats.values()) <= 2, "more than one batch was repeated"

    def _check_decisions(self, events: list[dict[str, Any]]) -> None:
        decided: dict[tuple[str, str], set[str]] = defaultdict(set)
        for event in events:
            decided[event["receipt"], event["subscription_id"]].add(event["decision"])
        for receipt, envelope_id in self._receipts.items():
            for subscription, how in self._wanted[envelope_id].items():
                seen = decided[receipt, subscription]
                assert seen, f"no decision was recorded where {how} was wanted"
                assert seen <= ({str(one) for one in PASSED} if how.pushes else {str(how)}), (
                    f"{how} is recorded as {seen}"
                )


def scenario(environment: dict[str, str]) -> Scenario:
    settings = MatchSettings.from_environment(environment)
    clients = MatchClients.make(PREFIX)._replace(executor=InTurn())
    return Scenario("xmtp", lambda: Messaging(settings, clients))
