"""Finds who wants the envelopes of a batch: by the rules' index first, and by the tables where that is uncertain."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING, NamedTuple

from clarion.decisions import EnvelopeDecision
from clarion.messages import PageMessage, PartMessage, RemainderMessage
from clarion.tables import BATCH_GET_ITEMS
from match import fan_out, matching, rule_reader
from match.capacity import Capacity
from match.failures import Failure, Pool, Unreadable, split_failures
from match.fan_out import FannedOut, Page
from match.item import Item, MatchedItem
from match.matching import Match, Subscriber, TakesOwn

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class FromIndex(NamedTuple):
    """What an item's page shows, and the subscriptions that the tables have to confirm."""

    page: Page
    matches: Mapping[str, Match]
    unreadable: Mapping[str, Failure]
    unconfirmed: set[str]


def find_recipients(
    dynamodb: "DynamoDBClient", items: Mapping[str, Item], page_size: int, takes_own: TakesOwn, pool: Pool
) -> dict[str, MatchedItem | Failure]:
    """For each item, by its message's id, those of its subscriptions that one invocation has the capacity for."""
    pages, failures = split_failures(_read_pages(dynamodb, items, page_size, pool))
    names = {name for page in pages.values() for name in page.subscription_ids}
    subscribers = _read_subscribers(dynamodb, names, pool)
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
    questions = {name: item.questions() for name, item in items.items()}
    asked = [(of_key, sizes[name]) for name, some in questions.items() for of_key in some.values()]
    answers = pool.map_concurrently(lambda one: rule_reader.rules(dynamodb, *one), {one: one for one in asked})
    pages: dict[str, Page | Failure] = {}
    for name, item in items.items():
        size = sizes[name]
        found, failures = split_failures({key: answers[of_key, size] for key, of_key in questions[name].items()})
        if failures:
            pages[name] = next(iter(failures.values()))
            continue
        pages[name] = page = fan_out.cut(found, item.span, min(size, capacity.left(item)), item.named)
        capacity.take(item, page)
    return pages


def _read_subscribers(dynamodb: "DynamoDBClient", names: Iterable[str], pool: Pool) -> dict[str, Subscriber | Failure]:
    requests = {some: some for some in batched(names, BATCH_GET_ITEMS, strict=False)}
    subscribers: dict[str, Subscriber | Failure] = {}
    for some, found in pool.map_concurrently(partial(rule_reader.subscribers, dynamodb), requests).items():
        subscribers |= dict.fromkeys(some, found) if isinstance(found, Failure) else found
    return subscribers


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
    return dict(rule_reader.match_by_tables(item.envelope, item.message.observed_at, names, takes_own))


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
    if isinstance(item.message, PartMessage):
        return None
    return EnvelopeDecision.MATCHED if wanted else EnvelopeDecision.UNMATCHED
