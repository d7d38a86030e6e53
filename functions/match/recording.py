"""What came is recorded in its subscription's row, where a network's pushes report the newest items (`clarion.newest`).

    queued ───────▶ recorded ──▶ a push, after a moment in which more may come
    rate_limited ─▶ recorded ──▶ one late push of the subscription, when the limit is over

Each is recorded before its push is sent, which refers to the row. Whoever records it twice, after a crash, sends another
push that says so. A late push is sent before the row says that it is on its way, so that none is lost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from clarion import newest
from clarion.decisions import NotificationDecision
from clarion.limiter import Limit
from clarion.networks import network
from clarion.newest import NewestItem, Recorded
from match.failures import Failure, Pool
from match.item import AdmittedItem

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_RECORDED = {NotificationDecision.QUEUED, NotificationDecision.RATE_LIMITED}


class Place(NamedTuple):
    """An envelope, by its message's id, for a subscription."""

    message_id: str
    subscription_id: str


@dataclass(frozen=True, slots=True)
class NewestRecorder:
    """`clock` is in UNIX milliseconds; `limit_of` gives the limit of a network, whose cooldown a late push waits for."""

    dynamodb: "DynamoDBClient"
    table_prefix: str
    limit_of: Callable[[str], Limit | None]
    clock: Callable[[], int]
    pool: Pool

    def record(self, items: Mapping[str, AdmittedItem]) -> dict[str, AdmittedItem | Failure]:
        """Each with the numbers of what was recorded of it. A write for each notification, all at once."""
        asked = {
            Place(name, notification.subscription_id): (item, notification.subscription_id, result.decision)
            for name, item in items.items()
            if network(item.item.envelope.network).newest
            for notification, result in item.results
            if result.decision in _RECORDED
        }
        if not asked:
            return dict(items)
        answers = self.pool.map_concurrently(lambda one: self._record(one[0], one[1]), asked)
        limited = {place for place, (_, _, how) in asked.items() if how is NotificationDecision.RATE_LIMITED}
        return self._with_numbers(items, answers, limited)

    def put_off(self, items: Mapping[str, AdmittedItem]) -> None:
        """After late pushes have been sent: none of their subscriptions needs another until they go out."""
        late = {
            (subscription_id, item.item.envelope.network) for item in items.values() for subscription_id in item.late
        }
        if late:
            # One that can't be noted may be followed by another push, which is coalesced with it.
            self.pool.map_concurrently(lambda one: self._put_off(*one), {one: one for one in late})

    def late_seconds(self, name: str) -> float:
        limit = self.limit_of(name)
        return limit.cooldown / 1000 if limit else 0

    def _with_numbers(
        self, items: Mapping[str, AdmittedItem], answers: Mapping[Place, Recorded | Failure], limited: set[Place]
    ) -> dict[str, AdmittedItem | Failure]:
        late = self._late(answers, limited)
        recorded: dict[str, AdmittedItem | Failure] = dict(items)
        for place, answer in answers.items():
            item = recorded[place.message_id]
            if isinstance(answer, Failure) or isinstance(item, Failure):
                recorded[place.message_id] = answer if isinstance(answer, Failure) else item
                continue
            numbers = {**item.numbers, place.subscription_id: answer.number}
            is_late = {place.subscription_id} if place in late else set[str]()
            recorded[place.message_id] = replace(item, numbers=numbers, late={*item.late, *is_late})
        return recorded

    def _late(self, answers: Mapping[Place, Recorded | Failure], limited: set[Place]) -> set[Place]:
        """Of each subscription without a late push on its way, the last of what its limit held back."""
        now, last = self.clock(), dict[str, tuple[int, Place]]()
        for place in limited:
            answer = answers[place]
            if isinstance(answer, Recorded) and answer.late_until <= now:
                before = last.get(place.subscription_id, (0, place))
                last[place.subscription_id] = max(before, (answer.number, place))
        return {place for _, place in last.values()}

    def _record(self, item: AdmittedItem, subscription_id: str) -> Recorded:
        envelope, message = item.item.envelope, item.item.message
        of_network = network(envelope.network)
        if of_network.newest is None:
            raise LookupError(envelope.network)
        raw = of_network.newest.raw_of(envelope)
        one = NewestItem(of_network.newest.name_of(envelope), message.observed_at, raw)
        request = newest.recording(self._table(envelope.network), subscription_id, one)
        return newest.recorded(self.dynamodb.update_item(**request))

    def _put_off(self, subscription_id: str, name: str) -> None:
        until = self.clock() + round(self.late_seconds(name) * 1000)
        self.dynamodb.update_item(**newest.putting_off(self._table(name), subscription_id, until))

    def _table(self, name: str) -> str:
        return f"{self.table_prefix}{network(name).needs.body_table}"
