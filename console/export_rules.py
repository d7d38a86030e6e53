"""`clarion export-rules`: every subscription with its rules in force, as JSON lines. Tokens are not even read."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import batched

import click

from clarion import networks, tables
from clarion.channels import Channel
from clarion.decisions import Environment, SubscriptionStatus
from clarion.networks import network
from clarion.tables import GENERATION_BYTES, RuleRow, Subscription, split_rule_key
from console.deployment import Deployment
from console.output import Report, progress

READERS = 8
AT_ONCE = 200
"""Subscriptions whose rules are held in memory together."""
ATTEMPTS = 5
READ = [
    "subscription_id",
    "client_id",
    "network",
    "channel",
    "app",
    "environment",
    "status",
    "generation",
    "rule_count",
]
"""All that is asked of DynamoDB; the token is not among it."""


class Line(Report):
    """A rule in force; or a subscription that has none, without `rule`."""

    client_id: str
    subscription_id: str
    network: str
    channel: Channel
    status: SubscriptionStatus
    app: str | None
    environment: Environment | None
    rule: Mapping[str, str] | None = None


def export(here: Deployment, client: bytes | None) -> None:
    """To standard output, in no particular order but a subscription's rules together."""
    tables.bind(here.prefix, pool=READERS, seconds=None)
    subscriptions, rules = 0, 0
    found = _of_client(client) if client else Subscription.scan(attributes_to_get=READ)
    with progress("reading subscriptions") as shown, ThreadPoolExecutor(READERS) as readers:
        for some in batched(found, AT_ONCE, strict=False):
            for lines in readers.map(_lines, some):
                subscriptions += 1
                for line in lines:
                    rules += line.rule is not None
                    click.echo(line.model_dump_json(exclude_none=True))
            shown.at(f"{subscriptions:,} subscriptions, {rules:,} rules", subscriptions)
    click.echo(f"{subscriptions:,} subscriptions, {rules:,} rules", err=True)


def _of_client(client: bytes) -> Iterator[Subscription]:
    """The index holds keys alone."""
    ids = [row.subscription_id for row in Subscription.by_client.query(client)]
    yield from Subscription.batch_get(ids, attributes_to_get=READ)


def _lines(row: Subscription) -> list[Line]:
    """The rules as they were at one moment, unless they change again and again; none if the subscription went."""
    current: Subscription | None = row
    rules: list[RuleRow] = []
    for _ in range(ATTEMPTS):
        if current is None:
            return []
        rules = list(_in_force(current))
        if len(rules) == current.rule_count:
            break
        current = next(iter(Subscription.batch_get([row.subscription_id], attributes_to_get=READ)), None)
    bare = _bare(row)
    return [_with(bare, rule) for rule in rules] or [bare]


def _in_force(row: Subscription) -> Iterable[RuleRow]:
    generation = int(row.generation)
    first, end = (number.to_bytes(GENERATION_BYTES) for number in (generation, generation + 1))
    return RuleRow.query(row.subscription_id, RuleRow.rule_key.between(first, end))


def _bare(row: Subscription) -> Line:
    return Line(
        client_id=row.client_id.hex(),
        subscription_id=row.subscription_id,
        network=row.network,
        channel=Channel(row.channel),
        status=SubscriptionStatus(row.status),
        app=row.app,
        environment=Environment(row.environment) if row.environment else None,
    )


def _with(bare: Line, rule: RuleRow) -> Line:
    _, key = split_rule_key(rule.rule_key)
    described = network(bare.network).describe(networks.Rule(key, rule.condition or b""))
    return bare.model_copy(update={"rule": described})
