"""A batch of messages, from one stage to the next: verify, lock pages, find recipients, admit, send.

A stage takes the items that the stage before returned, by their messages' ids, and returns for each of them what the
next stage takes, or its end: `Handled` or a `Failure`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING, NamedTuple

from clarion.decisions import NotificationDecision, Purpose
from clarion.messages import MatchMessage, PageMessage, PushMessage
from clarion.networks import network
from clarion.sqs import SqsMessage, send_to_queues
from clarion.tables import BATCH_GET_ITEMS
from match import fan_out
from match.admission import Admission, AdmissionResult, Group, Notification
from match.claims import Claims
from match.failures import Failure, Pool, attempt, split_failures
from match.item import AdmittedItem, Handled, Item, MatchedItem
from match.recipients import find_recipients
from match.recording import NewestRecorder
from match.settings import MatchSettings
from match.verify import RawEnvelopes, Rejected, verify_envelope
from match.windows import Pair, StoredWindow

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient


class QueuedBody(NamedTuple):
    """A message's body for a queue, which hands it over after `delay` seconds. Two that are equal are sent once."""

    queue_url: str
    body: str
    delay: float = 0


class Matcher(NamedTuple):
    settings: MatchSettings
    envelopes: RawEnvelopes
    claims: Claims
    admission: Admission
    recorder: NewestRecorder
    dynamodb: "DynamoDBClient"
    sqs: "SQSClient"
    pool: Pool
    clock: Callable[[], int]

    def handle(self, messages: Mapping[str, MatchMessage]) -> dict[str, Handled | Failure]:
        """Take each message, by its id, to its end."""
        ended: dict[str, Handled | Failure] = {}
        items = _split_ended(self._verify(messages), ended)
        items = _split_ended(self._lock_pages(items), ended)
        page_size = self.settings.fan_out_page
        found = find_recipients(self.dynamodb, items, page_size, self.settings.takes_own, self.pool)
        admitted = _split_ended(self._admit(_split_ended(found, ended)), ended)
        recorded = _split_ended(self.recorder.record(admitted), ended)
        ended |= self._send(recorded)
        self.admission.publish()
        return ended

    # ---- verify -----------------------------------------------------------------------------------------------------

    def _verify(self, messages: Mapping[str, MatchMessage]) -> dict[str, Item | Handled | Failure]:
        return self.pool.map_concurrently(partial(self._verify_one, now=self.clock()), messages)

    def _verify_one(self, message: MatchMessage, now: int) -> Item | Handled:
        verified = verify_envelope(message.network, self.envelopes.read(message), now)
        if isinstance(verified, Rejected):
            return Handled(message, verified.envelope, verified.decision, verified.reason)
        return Item(message, verified)

    def _lock_pages(self, items: Mapping[str, Item]) -> dict[str, Item | Handled | Failure]:
        """All but the pages of a fan-out that another message has."""
        pages = {name: (item, item.message) for name, item in items.items() if isinstance(item.message, PageMessage)}
        others = {name: item for name, item in items.items() if name not in pages}
        return others | self.pool.map_concurrently(self._lock_page, pages)

    def _lock_page(self, page: tuple[Item, PageMessage]) -> Item | Handled:
        (item, message), now = page, self.clock()
        locked = self.claims.lock(fan_out.page_lock(message, item.envelope, now), now)
        return item if locked else Handled(message, item.envelope)

    # ---- admit ------------------------------------------------------------------------------------------------------

    def _admit(self, matched: Mapping[str, MatchedItem]) -> dict[str, AdmittedItem | Failure]:
        results: dict[str, list[tuple[Notification, AdmissionResult]]] = {name: [] for name in matched}
        groups: dict[Group, list[tuple[str, Notification]]] = defaultdict(list)
        for name, item in matched.items():
            for notification in item.notifications():
                if notification.match.subscriber.channel not in self.settings.push_queues:
                    # Registered while the channel was deployed.
                    continue
                if notification.match.wanted.pushes:
                    groups[self.admission.group(notification)].append((name, notification))
                else:
                    results[name].append((notification, _unwanted(notification)))
        failures: dict[str, Failure] = {}
        for group, decided in self._decide({group: [one for _, one in some] for group, some in groups.items()}).items():
            if isinstance(decided, Failure):
                failures |= dict.fromkeys((name for name, _ in groups[group]), decided)
                continue
            for (name, notification), result in zip(groups[group], decided, strict=True):
                results[name].append((notification, result))
        admitted = {name: AdmittedItem.of(item, results[name]) for name, item in matched.items()}
        return admitted | failures

    def _decide(self, groups: Mapping[Group, Sequence[Notification]]) -> dict[Group, list[AdmissionResult] | Failure]:
        windows, failures = split_failures(self._windows(groups))
        left = {group: (group, some) for group, some in groups.items() if group not in failures}
        return failures | self.pool.map_concurrently(lambda one: self.admission.decide(*one, windows), left)

    def _windows(self, groups: Mapping[Group, Sequence[Notification]]) -> dict[Pair, StoredWindow | Failure]:
        """Of those groups that have one."""
        pairs = [(group, some) for group, some in groups.items() if isinstance(group, Pair)]
        requests = dict(enumerate(map(dict, batched(pairs, BATCH_GET_ITEMS, strict=False))))
        windows: dict[Pair, StoredWindow | Failure] = {}
        for number, found in self.pool.map_concurrently(self.admission.look, requests).items():
            windows |= dict.fromkeys(requests[number], found) if isinstance(found, Failure) else found
        return windows

    # ---- send -------------------------------------------------------------------------------------------------------

    def _send(self, items: Mapping[str, AdmittedItem]) -> dict[str, Handled | Failure]:
        """Pushes first, then the messages for what is left to do."""
        ended: dict[str, Handled | Failure] = {}
        sent = _split_ended(self._send_pushes(items), ended)
        self.recorder.put_off(sent)
        bodies = {name: [self._continuation(message) for message in item.continuations] for name, item in sent.items()}
        refused = self._post(body for of_item in bodies.values() for body in of_item)
        for name, item in sent.items():
            failures = [refused[body] for body in bodies[name] if body in refused]
            ended[name] = failures[0] if failures else item.handled()
        return ended

    def _send_pushes(self, items: Mapping[str, AdmittedItem]) -> dict[str, AdmittedItem | Failure]:
        """If a queue takes only some of an item's pushes, the others are left to a message of their own."""
        bodies, failed = split_failures({name: attempt(self._pushes, item) for name, item in items.items()})
        refused = self._post(body for of_item in bodies.values() for body in of_item.values())
        sent: dict[str, AdmittedItem | Failure] = {**failed}
        for name, of_item in bodies.items():
            unsent = {subscription: refused[body] for subscription, body in of_item.items() if body in refused}
            is_failed = unsent and len(unsent) == len(of_item)
            sent[name] = next(iter(unsent.values())) if is_failed else items[name].without(unsent)
        return sent

    def _pushes(self, item: AdmittedItem) -> dict[str, QueuedBody]:
        """By subscription. A network makes their bodies of what strangers wrote."""
        return {str(push.subscription_id): self._queued(push) for push in item.pushes()}

    def _queued(self, push: PushMessage) -> QueuedBody:
        """A late one counts as observed when it is due, so that its latency is what it takes from then on."""
        delay = self._delay(push)
        if push.purpose is Purpose.REFRESH:
            push = push.model_copy(update={"observed_at": self.clock() + round(delay * 1000)})
        return QueuedBody(self.settings.push_queues[push.channel], push.to_json(), delay)

    def _delay(self, push: PushMessage) -> float:
        """Seconds in which more may come that goes with the same push; of a late one, until the limit is over."""
        if push.purpose is Purpose.REFRESH:
            return self.recorder.late_seconds(push.network)
        newest = network(push.network).newest
        return newest.delay_seconds if newest else 0

    def _continuation(self, message: MatchMessage) -> QueuedBody:
        is_page = isinstance(message, PageMessage)
        return QueuedBody(self.settings.pages_queue_url if is_page else self.settings.queue_url, message.to_json())

    def _post(self, bodies: Iterable[QueuedBody]) -> dict[QueuedBody, Failure]:
        """Send all and return what SQS did not take."""
        different = list(dict.fromkeys(bodies))
        messages = [(body.queue_url, SqsMessage(body.body, delay=body.delay)) for body in different]
        answers = send_to_queues(self.sqs, messages, self.pool.executor)
        return {body: Failure(reason) for body, reason in zip(different, answers, strict=True) if reason}


def _split_ended[T](results: Mapping[str, T | Handled | Failure], ended: dict[str, Handled | Failure]) -> dict[str, T]:
    """The items for the next stage; the others are added to `ended`."""
    remaining: dict[str, T] = {}
    for name, result in results.items():
        if isinstance(result, Handled | Failure):
            ended[name] = result
        else:
            remaining[name] = result
    return remaining


def _unwanted(notification: Notification) -> AdmissionResult:
    """The rule's own word is the decision."""
    return AdmissionResult(NotificationDecision(notification.match.wanted.value))
