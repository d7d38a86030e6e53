"""Scenario: a batch through match, with limits nearly reached, a duplicate, a forgery, a crowd, a subscription whose
rules the index doesn't show yet, a second look, and a lost statement.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import boto3

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision
from clarion.limiter import MAX_PACKED_BYTES, Admitted, mark_of, pack, unpack
from clarion.messages import MatchMessage, PushMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import Statement, encode
from clarion.tables import WINDOW_PART, RateLimit, RuleRow, Subscription
from match.settings import MatchSettings
from match.worker import MatchClients
from tests.crash.harness import RETURN, Scenario
from tests.crash.lake import recorded_events
from tests.crash.wire import wire
from tests.match.ledger import look_again
from tests.match.scene import NOT_SHOWN_YET, OTHER, PREFIX, TOPIC, InTurn, Scene, Sender, received

LIMIT = 3
WINDOW = 60_000
PAGE = 3
SECONDS_BETWEEN_DELIVERIES = 180
"""As the queue's visibility has it: longer than any cooldown, and than the window."""
MAX_RECEIVES = 2
"""As few as let what failed once come right."""
LAST_REASONS = {
    *(f"{code} from GetObject" for code in ("NoSuchKey", "ThrottlingException", "InternalServerError")),
    "ReadTimeoutError",
}
"""Why what is lost could not be read, or what was planned to come between at that very call."""


@dataclass
class Matching:
    """`wanted` names, for each statement, the subscriptions that it is to be pushed to."""

    settings: MatchSettings
    clients: MatchClients
    dead_letter_url: str

    def __post_init__(self) -> None:
        self._numbers = count()
        self._scene = Scene(self.settings, self.clients)
        self._waiting: dict[str, str] = {}
        self._receives = Counter[str]()
        self._dead = list[str]()
        self._wanted: dict[bytes, set[str]] = defaultdict(set)
        self._receipts: dict[bytes, list[str]] = defaultdict(list)
        self._statement_decisions: dict[str, EnvelopeDecision] = {}
        self._lay_out()

    def _lay_out(self) -> None:
        scene = self._scene
        busy, fresh = uuid4().bytes * 2, uuid4().bytes * 2
        self._busy = [
            scene.subscribe(client_id=busy, channel=Channel.APNS, subscription_id=_name("9")),
            scene.subscribe(client_id=busy, channel=Channel.VOIP, subscription_id=_name("9")),
        ]
        self._fresh = [scene.subscribe(client_id=fresh, channel=Channel.FCM, subscription_id=_name("9"))]
        self._crowd = [scene.subscribe(OTHER, subscription_id=_name(digit)) for digit in "2227e"]
        self._unseen = self._subscribe_unseen()
        self._fill(busy, LIMIT - 1)
        wanting = [*self._busy, *self._fresh]
        first = scene.sender.states(TOPIC, expires_at=self._scene.clock() // 1000 + 600)
        self._send(first, wanting)
        self._send(scene.sender.states(TOPIC, data=bytes(3000)), wanting, large=True)
        self._send(first, wanting)
        both = scene.sender.states(TOPIC, OTHER)
        self._send(both, [*wanting, *self._crowd, self._unseen], changed=(self._unseen.subscription_id,))
        self._send(Sender().states(TOPIC), [], EnvelopeDecision.UNMATCHED)
        self._send(scene.sender.states(TOPIC)._replace(data=b"forged"), [], EnvelopeDecision.BAD_SIGNATURE)
        self._lost = scene.lost()
        self._enqueue(self._lost)

    def _subscribe_unseen(self) -> Subscription:
        subscription = self._scene.subscribe(OTHER, subscription_id=_name("a"))
        for rule in RuleRow.query(subscription.subscription_id):
            rule.update(actions=[RuleRow.key.set(NOT_SHOWN_YET)])
        return subscription

    def _fill(self, client_id: bytes, used: int) -> None:
        """Fill the pair's window: the next one admitted has it set a page aside."""
        now, earlier = self._scene.clock(), range(MAX_PACKED_BYTES // 14 - used + 2, 2, -1)
        admitted = [Admitted(now - ago * 25_000, bytes([ago] * 8)) for ago in earlier]
        admitted += [Admitted(now, bytes([200 + number] * 8)) for number in range(used)]
        pair = self._scene.pair(client_id)
        RateLimit(pair, WINDOW_PART, admitted=pack(admitted), version=used, ttl=2**40).save()

    def _send(
        self,
        statement: Statement,
        wanting: list[Subscription],
        decision: EnvelopeDecision = EnvelopeDecision.MATCHED,
        *,
        large: bool = False,
        changed: tuple[str, ...] = (),
    ) -> None:
        """With a second look at `changed`, if there are any."""
        message = self._scene.observe(statement)
        if large:
            boto3.client("s3").put_object(Bucket="oversize", Key=str(message.receipt), Body=encode(statement))
            message = message.model_copy(update={"raw": None, "location": str(message.receipt)})
        self._enqueue(message.model_copy(update={"changed": changed}))
        if changed:
            self._enqueue(look_again(message, *changed))
        self._wanted[statement.hash] |= {subscription.subscription_id for subscription in wanting}
        self._receipts[statement.hash].append(str(message.receipt))
        self._statement_decisions[str(message.receipt)] = decision

    def _enqueue(self, message: MatchMessage) -> None:
        self._waiting[str(next(self._numbers))] = message.to_json()

    # ---- what the harness asks for ----------------------------------------------------------------------------

    def deliver(self) -> bool:
        with wire.aside():
            for message in self._scene.again():
                self._enqueue(message)
        self._redrive()
        records = [received(number, body, receives=self._receives[number]) for number, body in self._waiting.items()]
        if not records:
            return True
        try:
            unfinished = self._scene.worker.handle(records)
        finally:
            self._scene.clock.advance(SECONDS_BETWEEN_DELIVERIES)
        wire.step(RETURN)
        self._waiting = {number: body for number, body in self._waiting.items() if number in unfinished}
        return False

    def _redrive(self) -> None:
        """Count the receives as SQS does, and take away what has had enough of them."""
        self._receives.update(self._waiting.keys())
        for number in [number for number in self._waiting if self._receives[number] > MAX_RECEIVES]:
            self._dead.append(self._waiting.pop(number))

    def stop(self) -> None:
        self._scene = self._scene.elsewhere()

    def check(self) -> None:
        pushes, events = self._scene.pushes(), recorded_events(self.settings.late_events_queue_url)
        self._check_pushes(pushes)
        self._check_budgets(pushes)
        self._check_dead_letters()
        self._check_statements(events)
        self._check_notifications(pushes, events)

    def _check_dead_letters(self) -> None:
        """What is lost is dead-lettered with its reason, or else by SQS; nothing besides is."""
        dead = _drain(self.dead_letter_url)
        assert {body for body, _ in dead} | {*self._dead} == {self._lost.to_json()}, (
            "dead-lettered is not what was lost"
        )
        assert {reason for _, reason in dead} <= LAST_REASONS, "dead-lettered for another reason"

    def _check_statements(self, events: list[dict[str, Any]]) -> None:
        decided: dict[str, set[str]] = defaultdict(set)
        for event in events:
            if event["event"] == "envelope":
                decided[event["receipt"]].add(event["decision"])
        for receipt, decision in self._statement_decisions.items():
            assert decided[receipt] == {decision}, f"a statement is {decision} but recorded as {decided[receipt]}"

    def _check_pushes(self, pushes: list[PushMessage]) -> None:
        queued = _receipts(pushes)
        assert queued.keys() <= set(self._pairs_wanted()), "a push went to one who did not want it"
        assert all(len(receipts) == 1 for receipts in queued.values()), "two receipts of one statement were queued"
        counts = Counter((push.envelope_id, push.subscription_id) for push in pushes)
        assert max(counts.values(), default=0) <= 2, "more than one batch was repeated"

    def _pairs_wanted(self) -> Iterator[tuple[bytes, str]]:
        return ((name, subscription) for name, wanting in self._wanted.items() for subscription in wanting)

    def _check_notifications(self, pushes: list[PushMessage], events: list[dict[str, Any]]) -> None:
        queued = _receipts(pushes)
        ruled: dict[tuple[str, str], set[bool]] = defaultdict(set)
        for event in events:
            if event["event"] == "notification":
                passed = event["decision"] == NotificationDecision.QUEUED
                ruled[event["receipt"], event["subscription_id"]].add(passed)
        for statement, subscription in self._pairs_wanted():
            verdicts = {receipt: ruled[receipt, subscription] for receipt in self._receipts[statement]}
            looks = 2 if subscription == self._unseen.subscription_id else 1
            assert all(0 < len(one) <= looks for one in verdicts.values()), f"ruled on otherwise or never: {verdicts}"
            passed_by = {receipt for receipt, verdict in verdicts.items() if True in verdict}
            assert queued.get((statement, subscription), set()) == passed_by, "what was queued is not what was decided"

    def _check_budgets(self, pushes: list[PushMessage]) -> None:
        pushed: dict[bytes, set[bytes]] = defaultdict(set)
        for push in pushes:
            pushed[push.client_id].add(mark_of(push.envelope_id))
        assert len(pushed[self._fresh[0].client_id]) == LIMIT, "the limit was not reached"
        crowd = [*self._crowd, self._unseen]
        assert all(len(pushed[one.client_id]) == 1 for one in crowd), "not each of the crowd got a push"
        for client_id, marks in pushed.items():
            counted = self._counted(client_id)
            assert {one.mark for one in counted if len(set(one.mark)) > 1} == marks, "not counted as queued"
            fullest = max(sum(0 <= other.at - one.at < WINDOW for other in counted) for one in counted)
            assert fullest <= LIMIT, "the limit was passed"
            if client_id == self._busy[0].client_id:
                assert fullest == LIMIT, "some were refused before the limit was reached"

    def _counted(self, client_id: bytes) -> list[Admitted]:
        """By the pair's window and its pages."""
        parts = RateLimit.query(self._scene.pair(client_id), RateLimit.part >= WINDOW_PART, consistent_read=True)
        return sorted({admission for part in parts for admission in unpack(part.admitted)})


def _name(digit: str) -> str:
    """An id that begins so: with these digits a fan-out has two legs, the same in every run."""
    return f"{digit}0{str(uuid4())[2:]}"


def _receipts(pushes: list[PushMessage]) -> dict[tuple[bytes, str], set[str]]:
    """By which receipts each statement was queued for each subscription."""
    queued: dict[tuple[bytes, str], set[str]] = defaultdict(set)
    for push in pushes:
        queued[push.envelope_id, str(push.subscription_id)].add(str(push.receipt))
    return queued


def _drain(url: str) -> list[tuple[str, str]]:
    """The dead letters and their reasons."""
    sqs = boto3.client("sqs")
    found = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], MaxNumberOfMessages=10)
    letters = found.get("Messages", ())
    for letter in letters:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=letter["ReceiptHandle"])
    return [(letter["Body"], letter["MessageAttributes"]["reason"]["StringValue"]) for letter in letters]


def scenario(environment: dict[str, str]) -> Scenario:
    url = boto3.client("sqs").create_queue(QueueName="crash-statements-dead")["QueueUrl"]
    narrow = {
        "CLARION_LIMITS": json.dumps({STATEMENTS: {"count": LIMIT, "window_seconds": 60, "cooldown_seconds": 120}}),
        "CLARION_FAN_OUT_PAGE": str(PAGE),
        "CLARION_MAX_RECEIVES": str(MAX_RECEIVES),
        "CLARION_DEAD_LETTER_URL": url,
    }
    settings = MatchSettings.from_environment(environment | narrow)
    clients = MatchClients.make(PREFIX)._replace(executor=InTurn())
    return Scenario("match", lambda: Matching(settings, clients, url))
