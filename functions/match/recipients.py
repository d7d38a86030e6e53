"""Finds who wants the envelopes of a batch: by the rules' index first, and by the tables where that is uncertain."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING, NamedTuple

from clarion.decisions import EnvelopeDecision
from clarion.messages import PageMessage, RemainderMessage, SecondLookMessage
from clarion.networks import network
from clarion.tables import BATCH_GET_ITEMS
from match import fan_out, matching
from match.failures import Failure, Pool, Unreadable, split_failures
from match.fan_out import FannedOut, Page
from match.item import Item, MatchedItem
from match.matching import Match, Subscriber, TakesOwn

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PAGES = 8
"""How many pages of subscriptions one invocation matches at most; the rest goes into further messages."""
HASHED_BYTES = 256 * 1024 * 1024
"""How much one invocation has networks hash at most, to the same end: an eighth of a second of a processor."""


class FromIndex(NamedTuple):
    """What an item's page shows, and the subscriptions that the tables have to confirm."""

    page: Page
    matches: Mapping[str, Match]
    unreadable: Mapping[str, Failure]
    unconfirmed: set[str]


class Capacity:
    """What one invocation has left, for as many items as there are."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._subscriptions = PAGES * page_size
        self._bytes = HASHED_BYTES

    def page_size(self, item: Item) -> int:
        """How many subscriptions a page of the item has: one at least, so that it gets on."""
        return max(1, min(self._page_size, self._bytes // max(1, _bytes_per_subscription(item))))

    def left(self, item: Item) -> int:
        """How many of the item's subscriptions there is capacity for."""
        if self._bytes == HASHED_BYTES:
            return self._subscriptions
        return min(self._subscriptions, self._bytes // max(1, _bytes_per_subscription(item)))

    def take(self, item: Item, page: Page) -> None:
        taken = len(page.subscription_ids | set(filter(page.covers, item.named)))
        self._subscriptions -= taken
        self._bytes -= taken * _bytes_per_subscription(item)


def find_recipients(
    dynamodb: "DynamoDBClient", items: Mapping[str, Item], page_size: int, takes_own: TakesOwn, pool: Pool
) -> dict[str, MatchedItem | Failure]:
    """For each item, by its message's id, those of its subscriptions that one invocation has the capacity for."""
    pages, failures = split_failures(_read_pages(dynamodb, items, page_size, pool))
    subscribers = _read_subscribers({name for page in pages.values() for name in page.subscription_ids}, pool)
    from_index, failed = split_failures(
        {name: _by_index(items[name], page, subscribers, takes_own) for name, page in pages.items()}
    )
    failures |= failed
    unconfirmed = {name: (items[name], found.unconfirmed) for name, found in from_index.items() if found.unconfirmed}
    from_tables, failed = split_failures(pool.map_concurrently(partial(_by_tables, takes_own=takes_own), unconfirmed))
    failures |= failed
    matched = {
        name: _matched(items[name], found, from_tables.get(name, {}))
        for name, found in from_index.items()
        if name not in failures
    }
    return failures | matched


def _read_pages(
    dynamodb: "DynamoDBClient", items: Mapping[str, Item], page_size: int, pool: Pool
) -> dict[str, Page | Failure]:
    capacity = Capacity(page_size)
    sizes = {name: capacity.page_size(item) for name, item in items.items()}
    questions = {(of_key, sizes[name]) for name, item in items.items() for of_key in item.questions().values()}
    answers = pool.map_concurrently(lambda one: matching.rules(dynamodb, *one), {one: one for one in questions})
    pages: dict[str, Page | Failure] = {}
    for name, item in items.items():
        size = sizes[name]
        found, failures = split_failures({key: answers[of_key, size] for key, of_key in item.questions().items()})
        if failures:
            pages[name] = next(iter(failures.values()))
            continue
        pages[name] = page = fan_out.cut(found, item.span, min(size, capacity.left(item)), item.named)
        capacity.take(item, page)
    return pages


def _read_subscribers(names: Iterable[str], pool: Pool) -> dict[str, Subscriber | Failure]:
    requests = {some: some for some in batched(names, BATCH_GET_ITEMS, strict=False)}
    subscribers: dict[str, Subscriber | Failure] = {}
    for some, found in pool.map_concurrently(matching.subscribers, requests).items():
        subscribers |= dict.fromkeys(some, found) if isinstance(found, Failure) else found
    return subscribers


def _bytes_per_subscription(item: Item) -> int:
    return len(item.envelope.keys) * network(item.envelope.network).bytes_per_rule(item.envelope)


def _by_index(
    item: Item, page: Page, subscribers: Mapping[str, Subscriber | Failure], takes_own: TakesOwn
) -> FromIndex | Failure:
    """Subscriptions that can't be read are left out, but not those that AWS gave no answer for."""
    named = set(filter(page.covers, item.named))
    found = {name: subscribers[name] for name in page.subscription_ids - named if name in subscribers}
    known, failures = split_failures(found)
    for failure in failures.values():
        if not isinstance(failure, Unreadable):
            return failure
    matches = matching.match(item.envelope, item.message.observed_at, page.candidates, known, takes_own)
    unconfirmed = named | matching.unconfirmed(page.candidates, known, matches.found)
    return FromIndex(page, matches.found, failures | matches.unreadable, unconfirmed)


def _by_tables(unconfirmed: tuple[Item, set[str]], takes_own: TakesOwn) -> dict[str, Match | Failure]:
    item, names = unconfirmed
    return dict(matching.match_by_tables(item.envelope, item.message.observed_at, names, takes_own))


def _matched(item: Item, found: FromIndex, from_tables: Mapping[str, Match | Failure]) -> MatchedItem:
    closer, unreadable = split_failures(from_tables)
    matches = [*found.matches.values(), *closer.values()]
    successors = _successors(item, found.page)
    matched = {match.subscriber.subscription_id for match in matches}
    left_out = {name: one.reason for name, one in {**found.unreadable, **unreadable}.items() if name not in matched}
    return MatchedItem(item, _decision(item, wanted=bool(matches or successors)), matches, successors, left_out)


def _successors(item: Item, page: Page) -> Sequence[PageMessage | RemainderMessage]:
    if isinstance(item.message, FannedOut):
        return fan_out.successors(item.message, page)
    left = [name for name in item.named if not page.covers(name)]
    return [item.remainder(left)] if left else []


def _decision(item: Item, *, wanted: bool) -> EnvelopeDecision | None:
    if isinstance(item.message, PageMessage | SecondLookMessage | RemainderMessage):
        return None
    return EnvelopeDecision.MATCHED if wanted else EnvelopeDecision.UNMATCHED
