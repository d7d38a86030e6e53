"""One batch of statements on its way: each stage takes the cases that are still open one step further."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import batched
from uuid import UUID

from clarion.decisions import NotificationDecision, StatementDecision
from clarion.messages import PushMessage, StatementMessage
from clarion.payload import MAX_DATA_SIZE
from clarion.statement import Statement
from match import lookups
from match.admission import Admission, Notification, Ruling
from match.faults import Fault, settle
from match.matching import Match, Receiver, Wish, match
from match.outbox import Outbox
from match.source import Source
from match.verdict import judge


@dataclass(slots=True)
class Case:
    """A statement in the batch, and what has been found out about it so far."""

    message_id: str
    message: StatementMessage
    statement: Statement | None = None
    decision: StatementDecision | None = None
    reason: str | None = None
    matches: Sequence[Match] = ()
    rulings: list[tuple[Notification, Ruling]] = field(default_factory=list)
    fault: str | None = None

    @property
    def sender(self) -> bytes:
        """The verified signer."""
        if self.statement is None or self.statement.signer is None:
            raise ValueError("only a verified statement has a sender")
        return self.statement.signer


class Matcher:
    def __init__(
        self,
        *,
        source: Source,
        admission: Admission,
        outbox: Outbox,
        pool: Executor,
        clock: Callable[[], int],
    ) -> None:
        self._source = source
        self._admission = admission
        self._outbox = outbox
        self._pool = pool
        self._clock = clock

    def decide(self, cases: Sequence[Case]) -> None:
        """Take every case to its decision, or to the fault for which the queue is to bring it again."""
        self._judge(cases)
        self._match([case for case in cases if not case.fault and not case.decision])
        self._admit([case for case in cases if case.matches])
        self._queue([case for case in cases if case.matches and not case.fault])

    def _judge(self, cases: Sequence[Case]) -> None:
        now = self._clock()
        for case, raw in settle(self._pool, self._read, cases):
            if isinstance(raw, Fault):
                case.fault = raw.reason
            else:
                case.statement, case.decision, case.reason = judge(raw, now)

    def _read(self, case: Case) -> bytes:
        return self._source.read(case.message)

    def _match(self, cases: Sequence[Case]) -> None:
        wishes = dict(settle(self._pool, lookups.wishes, {key for case in cases for key in _keys(case).values()}))
        receivers = self._receivers(wishes.values())
        for case in cases:
            matches = _matches(case, wishes, receivers)
            if isinstance(matches, Fault):
                case.fault = matches.reason
            else:
                case.matches = matches
                case.decision = StatementDecision.MATCHED if matches else StatementDecision.UNMATCHED

    def _receivers(self, found: Iterable[list[Wish] | Fault]) -> dict[str, Receiver | Fault]:
        ids = {wish.subscription_id for wishes in found if not isinstance(wishes, Fault) for wish in wishes}
        receivers: dict[str, Receiver | Fault] = {}
        for some, answer in settle(self._pool, lookups.receivers, batched(ids, lookups.BATCH_GET_KEYS, strict=False)):
            receivers |= dict.fromkeys(some, answer) if isinstance(answer, Fault) else answer
        return receivers

    def _admit(self, cases: Sequence[Case]) -> None:
        of_pair: dict[bytes, list[tuple[Case, Notification]]] = defaultdict(list)
        for case in cases:
            for notification in _notifications(case):
                of_pair[notification.pair].append((case, notification))
        for some, rulings in settle(self._pool, self._rule, of_pair.values()):
            for number, (case, notification) in enumerate(some):
                if isinstance(rulings, Fault):
                    case.fault = rulings.reason
                else:
                    case.rulings.append((notification, rulings[number]))

    def _rule(self, of_pair: Sequence[tuple[Case, Notification]]) -> list[Ruling]:
        return self._admission.decide([notification for _, notification in of_pair])

    def _queue(self, cases: Sequence[Case]) -> None:
        pushes = {_push(case, notification): case for case in cases for notification in _queued(case)}
        for parcel, refused in settle(self._pool, self._outbox.send, self._outbox.parcels(pushes)):
            failures = dict.fromkeys(parcel.pushes, refused.reason) if isinstance(refused, Fault) else refused
            for push, reason in failures.items():
                pushes[push].fault = reason


def _keys(case: Case) -> dict[bytes, bytes]:
    """The index key for each of the statement's topics, in their order."""
    topics = case.statement.topics if case.statement else ()
    return {topic: case.sender + topic for topic in topics}


def _matches(
    case: Case, wishes: Mapping[bytes, list[Wish] | Fault], receivers: Mapping[str, Receiver | Fault]
) -> list[Match] | Fault:
    wanted: dict[bytes, list[Wish]] = {}
    known: dict[str, Receiver] = {}
    for topic, key in _keys(case).items():
        found = wishes[key]
        if isinstance(found, Fault):
            return found
        wanted[topic] = found
        for wish in found:
            receiver = receivers.get(wish.subscription_id)
            if isinstance(receiver, Fault):
                return receiver
            if receiver:
                known[wish.subscription_id] = receiver
    return match(wanted, known)


def _notifications(case: Case) -> list[Notification]:
    if case.statement is None:
        return []
    statement_hash = case.statement.hash
    return [
        Notification(case.message.receipt, statement_hash, case.sender, case.statement.expires_at, match)
        for match in case.matches
    ]


def _queued(case: Case) -> Iterator[Notification]:
    return (notification for notification, ruling in case.rulings if ruling.decision is NotificationDecision.QUEUED)


def _push(case: Case, notification: Notification) -> PushMessage:
    data = case.statement.data if case.statement else None
    truncated = data is not None and len(data) > MAX_DATA_SIZE
    receiver = notification.match.receiver
    return PushMessage(
        receipt=notification.receipt,
        observed_at=case.message.observed_at,
        statement_hash=notification.statement_hash,
        subscription_id=UUID(receiver.subscription_id),
        client_id=receiver.client_id,
        notify_type=receiver.notify_type,
        push_type=notification.match.push_type,
        sender_pubkey=notification.sender,
        topic=notification.match.topic,
        data=None if truncated else data,
        truncated=truncated,
        expires_at=notification.expires_at,
    )
