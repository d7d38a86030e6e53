"""What came is recorded in its subscription's row, where a network's pushes report the newest items (`clarion.newest`).

    queued ────────────────▶ recorded ──▶ a push, after a moment in which more may come
    rate_limited, capped ──▶ recorded, unless often enough already
                                 └──▶ one late push of the subscription, when the limit is over

Each is recorded before its push is sent, which refers to the row. Whoever records it twice, after a crash, sends another
push that says so. A late push is sent before the row says that it is on its way, and the row says so for somewhat less
than the push takes: so none is lost.

All that a batch has for a subscription is one write. A limit makes a flood cost reads alone, and so does this: while a
late push is on its way, what is held back is looked for in the row, and recorded some forty times at most. At first each
is, so that where a limit is passed by a few the newest is kept; later one every few seconds.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from clarion import newest
from clarion.decisions import NotificationDecision
from clarion.limiter import SKEW, Limit
from clarion.networks import Newest, network
from clarion.newest import NewestItem, NewestRow
from clarion.newest_updates import NewestArrival, NewestKey, putting_off, recording, trimming
from match.failures import Failure, Pool
from match.item import AdmittedItem

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

HELD_BACK = {NotificationDecision.RATE_LIMITED, NotificationDecision.CAPPED}
LONGEST_LATE = 900_000
"""Milliseconds, as SQS has it for delays."""
AT_FIRST, LATER = 12, 30
"""How often something that is held back may be recorded while a late push is on its way: `LATER` evenly over the time."""
_ATTEMPTS = 10
"""At each another worker has written the row meanwhile."""


class NotificationId(NamedTuple):
    """An envelope, by its message's id, for a subscription."""

    message_id: str
    subscription_id: str


class Observed(NamedTuple):
    """What a batch has for one subscription of a network."""

    network: str
    subscription_id: str
    queued: dict[NotificationId, NewestItem]
    held_back: dict[NotificationId, NewestItem]

    @property
    def policy(self) -> Newest:
        found = network(self.network).newest
        if found is None:
            raise LookupError(self.network)
        return found

    def arrival(self, now: int) -> NewestArrival:
        """Of each name the newest item, and no more than a row has."""
        items = NewestRow(0, 0, ()).with_items([*self.queued.values(), *self.held_back.values()])
        return NewestArrival(newest.ranked(items, self.policy)[: self.policy.kept], now, limited=not self.queued)


class NewestRecorder(NamedTuple):
    """`clock` is in UNIX milliseconds. A late push waits for a network's cooldown, of `limit_of`, or for the cap's window."""

    dynamodb: "DynamoDBClient"
    table_prefix: str
    limit_of: Callable[[str], Limit | None]
    cap: Limit
    clock: Callable[[], int]
    pool: Pool

    def record(self, items: Mapping[str, AdmittedItem]) -> dict[str, AdmittedItem | Failure]:
        """Each with the numbers of what was recorded of it. A write for each subscription, all at once."""
        observed = _by_subscription(items)
        rows = self.pool.map_concurrently(self._record, observed) if observed else {}
        recorded: dict[str, AdmittedItem | Failure] = dict(items)
        for subscription_id, row in rows.items():
            one = observed[subscription_id]
            late = None if isinstance(row, Failure) else self._late(one, row)
            for key in (*one.queued, *one.held_back):
                recorded[key.message_id] = _with_row(recorded[key.message_id], key, row, late)
        return recorded

    def put_off(self, items: Mapping[str, AdmittedItem]) -> None:
        """After late pushes have been sent: none of their subscriptions needs another until they go out."""
        late = {
            (subscription_id, item.item.envelope.network) for item in items.values() for subscription_id in item.late
        }
        if late:
            # One that can't be noted may be followed by another push, which is coalesced with it.
            self.pool.map_concurrently(lambda one: self._put_off(*one), {one: one for one in late})

    def late_seconds(self, name: str) -> float:
        return self._late_milliseconds(name) / 1000

    def _late_milliseconds(self, name: str) -> int:
        limit = self.limit_of(name)
        return min(LONGEST_LATE, max(limit.cooldown if limit else 0, self.cap.window))

    def _late(self, one: Observed, row: NewestRow) -> NotificationId | None:
        """The newest of what is held back, if no late push is on its way for it."""
        if row.late_until > self.clock():
            return None
        return max(one.held_back, key=lambda key: one.held_back[key].observed_at, default=None)

    def _record(self, one: Observed) -> NewestRow:
        """The row after it, or as it was if nothing had to be written."""
        row_key, arrival = self._row_key(one.network, one.subscription_id), one.arrival(self.clock())
        if arrival.limited:
            row = newest.read_item(self.dynamodb.get_item(TableName=row_key.table, Key=_id(row_key)).get("Item", {}))
            if not self._is_worth_it(one.network, row, arrival):
                return row
        return self._write(row_key, one.policy, arrival)

    def _is_worth_it(self, name: str, row: NewestRow, arrival: NewestArrival) -> bool:
        """Whether what is held back is recorded. The row may have been read as it was a moment ago: then it is once more."""
        span = self._late_milliseconds(name)
        left = row.late_until - arrival.at
        if left <= 0:
            return True
        seldom = row.limited < AT_FIRST + LATER * (span - left) / span
        return seldom and row.with_items(arrival.items).items != row.items

    def _write(self, row_key: NewestKey, policy: Newest, arrival: NewestArrival) -> NewestRow:
        refused = self.dynamodb.exceptions.ConditionalCheckFailedException
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._update(recording(row_key, policy, arrival))
            except refused as conflict:
                found: Any = conflict.response.get("Item")
            if found:
                try:
                    return self._update(trimming(row_key, policy, arrival, newest.read_item(found)))
                except refused:
                    continue
        return self._update(recording(row_key, policy, arrival))

    def _update(self, request: dict[str, Any]) -> NewestRow:
        return newest.read_item(self.dynamodb.update_item(**request)["Attributes"])

    def _put_off(self, subscription_id: str, name: str) -> None:
        until = self.clock() + self._late_milliseconds(name) - SKEW
        self.dynamodb.update_item(**putting_off(self._row_key(name, subscription_id), until))

    def _row_key(self, name: str, subscription_id: str) -> NewestKey:
        return NewestKey(f"{self.table_prefix}{network(name).needs.body_table}", subscription_id)


def _by_subscription(items: Mapping[str, AdmittedItem]) -> dict[str, Observed]:
    found: dict[str, Observed] = {}
    for name, item in items.items():
        envelope = item.item.envelope
        policy = network(envelope.network).newest
        if policy is None:
            continue
        arrived = NewestItem(policy.name_of(envelope), item.item.message.observed_at, policy.raw_of(envelope))
        for notification, result in item.results:
            if result.decision is NotificationDecision.QUEUED or result.decision in HELD_BACK:
                key = NotificationId(name, notification.subscription_id)
                one = found.setdefault(key.subscription_id, Observed(envelope.network, key.subscription_id, {}, {}))
                of_this = one.held_back if result.decision in HELD_BACK else one.queued
                of_this[key] = arrived
    return found


def _with_row(
    item: AdmittedItem | Failure, key: NotificationId, row: NewestRow | Failure, late: NotificationId | None
) -> AdmittedItem | Failure:
    if isinstance(item, Failure):
        return item
    if isinstance(row, Failure):
        return row
    numbers = {**item.numbers, key.subscription_id: row.number}
    return item._replace(numbers=numbers, late={*item.late, key.subscription_id} if key == late else item.late)


def _id(row_key: NewestKey) -> dict[str, dict[str, str]]:
    return {"subscription_id": {"S": row_key.subscription_id}}
