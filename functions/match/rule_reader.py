"""Reads rules and subscriptions for matching.

Rules are read by way of an index, subscriptions from their table: eventually consistent, at half a read unit each. What
they can't confirm is read from both tables, consistently.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.messages import Span
from clarion.networks import Envelope
from clarion.rows import DynamoItem, batch_get, query, values_of
from clarion.tables import WITHOUT_TOKEN, ByKey, RuleRow, Subscription, rule_key, split_rule_key
from match.failures import THROTTLED, Failure, Unreadable, bisect_on_failure, read_row
from match.matching import Candidate, Candidates, Match, Subscriber, TakesOwn, match

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class Question(NamedTuple):
    """Which rules name this key; within `span`, if it is given."""

    key: bytes
    span: Span | None


class FoundRules(NamedTuple):
    """In the order of their subscriptions. Those of the last one are all there, even if there are `more`."""

    candidates: list[Candidate]
    more: bool


def rules(dynamodb: "DynamoDBClient", question: Question, page: int) -> FoundRules:
    """About a page of rules, of whatever generation."""
    candidates: list[Candidate] = []
    for item in query(dynamodb, **_request(question), Limit=page + 1):
        candidate = _candidate(values_of(RuleRow, item))
        if len(candidates) >= page and candidate.subscription_id != candidates[-1].subscription_id:
            return FoundRules(candidates, more=True)
        candidates.append(candidate)
    return FoundRules(candidates, more=False)


def subscribers(dynamodb: "DynamoDBClient", subscription_ids: Sequence[str]) -> dict[str, Subscriber | Failure]:
    """Those that exist of up to 100 subscriptions, as far as they can be read."""
    keys = [{"subscription_id": name} for name in subscription_ids]
    read = batch_get(dynamodb, Subscription, keys, WITHOUT_TOKEN)
    found: dict[str, Subscriber | Failure] = {
        item["subscription_id"]["S"]: read_row(_read_subscriber, item) for item in read.items
    }
    return found | {key["subscription_id"]["S"]: THROTTLED for key in read.left}


def match_by_tables(
    envelope: Envelope, observed_at: int, subscription_ids: Iterable[str], takes_own: TakesOwn
) -> dict[str, Match | Unreadable]:
    """What matches by the tables themselves: rules and subscriptions as they are together at one moment from now on."""
    return bisect_on_failure(partial(_match_by_tables, envelope, observed_at, takes_own), sorted(subscription_ids))


def _request(question: Question) -> dict[str, Any]:
    condition = "#0 = :0"
    values: dict[str, dict[str, str | bytes]] = {":0": {"B": question.key}}
    if span := question.span:
        condition += " AND subscription_id BETWEEN :1 AND :2"
        values |= {":1": {"S": f"{span.after} "}, ":2": {"S": span.until}}
    return {
        "TableName": RuleRow.Meta.table_name,
        "IndexName": ByKey.Meta.index_name,
        "KeyConditionExpression": condition,
        "ExpressionAttributeNames": {"#0": "key"},
        "ExpressionAttributeValues": values,
    }


def _match_by_tables(
    envelope: Envelope, observed_at: int, takes_own: TakesOwn, subscription_ids: Sequence[str]
) -> dict[str, Match | Unreadable]:
    """No request reads both tables, so read again what a change came between, as `revision` shows."""
    found: dict[str, Match | Unreadable] = {}
    rows = _current(subscription_ids)
    while rows:
        known = {name: _subscriber(row.attribute_values) for name, row in rows.items()}
        matches = match(envelope, observed_at, _candidates(envelope.keys, known), known, takes_own)
        now = _current(rows)
        unmoved = {name for name, row in now.items() if row.revision == rows[name].revision}
        found |= {name: one for name, one in (matches.unreadable | matches.found).items() if name in unmoved}
        rows = {name: row for name, row in now.items() if name not in unmoved}
    return found


def _candidates(keys: Sequence[bytes], known: Mapping[str, Subscriber]) -> Candidates:
    names = [(name, rule_key(known[name].generation, key)) for name in known for key in keys]
    found: dict[bytes, list[Candidate]] = {key: [] for key in keys}
    for row in RuleRow.batch_get(names, consistent_read=True):
        found[split_rule_key(row.rule_key)[1]].append(_candidate(row.attribute_values))
    return found


def _current(subscription_ids: Iterable[str]) -> dict[str, Subscription]:
    rows = Subscription.batch_get(subscription_ids, consistent_read=True, attributes_to_get=WITHOUT_TOKEN)
    return {row.subscription_id: row for row in rows}


def _candidate(row: Mapping[str, Any]) -> Candidate:
    """Of the attributes of a `RuleRow`."""
    generation, _ = split_rule_key(row["rule_key"])
    return Candidate(row["subscription_id"], generation, row.get("condition", b""))


def _read_subscriber(item: DynamoItem) -> Subscriber:
    return _subscriber(values_of(Subscription, item))


def _subscriber(row: Mapping[str, Any]) -> Subscriber:
    """Of the attributes of a `Subscription`: names are checked before anything is made of them for the whole batch."""
    UUID(row["subscription_id"])
    return Subscriber(
        row["subscription_id"],
        row["client_id"],
        Channel(row["channel"]),
        row["status"] == SubscriptionStatus.ACTIVE,
        int(row["generation"]),
        row.get("app"),
        row["status"] == SubscriptionStatus.PENDING,
    )
