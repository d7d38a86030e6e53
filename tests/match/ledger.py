"""What each path through match costs, measured on the real code: `make ledger` prints the table of docs/cost.md."""

import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from itertools import takewhile
from typing import NamedTuple
from uuid import UUID, uuid4

import boto3
from moto import mock_aws

from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.messages import EnvelopeMessage, MatchMessage, PageMessage, SecondLookMessage, Span
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import encode
from clarion.networks.statements.rules import key_of
from clarion.tables import RuleRow, Subscription, rule_key
from match.settings import MatchSettings
from match.worker import MatchClients
from pipeline.prices import READ_UNIT
from tests.match.dictionary import Dictionary
from tests.match.meter import Bill, meter
from tests.match.scene import PREFIX, TOPIC, InTurn, Scene, Sender, credentials, deploy

PAGE = 250
"""As deployed: the default of the settings."""
BATCH = 300
LARGE = 900_000
"""Bytes, more than a message takes."""
DISPATCH_READ = 0.5
"""What dispatch reads for each push: the subscription's row, with its token."""


class Cost(NamedTuple):
    """For one statement, or one notification, all in all."""

    reads: float
    writes: float
    sent: float
    dollars: float


class Path(NamedTuple):
    """`plays` makes a new worker's scene go down the path; `per` is how many statements or notifications it then was.

    A `long` one takes minutes: the gate leaves it to `make ledger`.
    """

    name: str
    plays: Callable[[Scene], Bill]
    per: int = 1
    delivered: bool = False
    long: bool = False

    def cost(self, scene: Scene) -> Cost:
        bill = self.plays(scene)
        reads, dollars = bill.reads / self.per, bill.dollars / self.per
        if self.delivered:
            reads, dollars = reads + DISPATCH_READ, dollars + DISPATCH_READ * READ_UNIT
        return Cost(reads, bill.writes / self.per, bill.sent / self.per, dollars)


def unmatched(scene: Scene) -> Bill:
    with meter.running() as bill:
        scene.take(*scene.observe_new(1))
    return bill


def look_again(message: EnvelopeMessage, *names: str) -> SecondLookMessage:
    return SecondLookMessage(**message.observation, look_id=uuid4(), subscription_ids=names)


def second_look_in_vain(scene: Scene) -> Bill:
    """At one that has its push."""
    name = scene.subscribe().subscription_id
    [message] = scene.observe_new(1)
    scene.take(message)
    with meter.running() as bill:
        scene.take(look_again(message, name))
    return bill


def second_look(scene: Scene) -> Bill:
    name = scene.subscribe().subscription_id
    [message] = scene.observe_new(1)
    with meter.running() as bill:
        scene.take(look_again(message, name))
    return bill


def changed_lately(scene: Scene) -> Bill:
    name = scene.subscribe().subscription_id
    [message] = scene.observe_new(1)
    with meter.running() as bill:
        scene.take(message.model_copy(update={"changed": (name,)}))
    return bill


def forged(scene: Scene) -> Bill:
    with meter.running() as bill:
        scene.take(scene.observe(scene.sender.states()._replace(data=b"forged")))
    return bill


def new_pair(scene: Scene) -> Bill:
    scene.subscribe()
    with meter.running() as bill:
        scene.take(*scene.observe_new(1))
    return bill


def known_pair(scene: Scene) -> Bill:
    scene.subscribe()
    scene.take(*scene.observe_new(1))
    with meter.running() as bill:
        scene.take(*scene.observe_new(1))
    return bill


def stale_window(scene: Scene) -> Bill:
    """Eight, one at a time, the first just after another worker wrote the window: that write fails, and is billed."""
    scene.subscribe()
    scene.take(*scene.observe_new(1))
    scene.elsewhere().take(*scene.observe_new(1))
    with meter.running() as bill:
        for message in scene.observe_new(8):
            scene.take(message)
    return bill


def ten_at_once(scene: Scene) -> Bill:
    scene.subscribe()
    with meter.running() as bill:
        scene.take(*scene.observe_new(10))
    return bill


def duplicate(scene: Scene) -> Bill:
    scene.subscribe()
    statement = scene.sender.states()
    scene.take(scene.observe(statement))
    with meter.running() as bill:
        scene.elsewhere().take(scene.observe(statement))
    return bill


def over_the_limit(scene: Scene) -> Bill:
    scene.subscribe()
    scene.take(*scene.observe_new(30))
    with meter.running() as bill:
        scene.elsewhere().take(*scene.observe_new(1))
    return bill


def in_cooldown(scene: Scene) -> Bill:
    scene.subscribe()
    scene.take(*scene.observe_new(31))
    with meter.running() as bill:
        scene.elsewhere().take(*scene.observe_new(1))
    return bill


def in_known_cooldown(scene: Scene) -> Bill:
    scene.subscribe()
    scene.take(*scene.observe_new(31))
    with meter.running() as bill:
        scene.take(*scene.observe_new(1))
    return bill


def retry(scene: Scene) -> Bill:
    scene.subscribe()
    messages = scene.observe_new(1)
    scene.take(*messages)
    with meter.running() as bill:
        scene.elsewhere().take(*messages)
    return bill


def busy_pair(scene: Scene) -> Bill:
    """Thirty, one at a time, for one who was sent ninety within the last minutes: the window takes sixty more."""
    table = Dictionary()
    want(table, str(uuid4()), scene.sender.key)
    with table.answering(scene.clients):
        _fill_a_page(scene)
        with meter.running() as bill:
            for message in scene.observe_new(30):
                scene.take(message)
    return bill


def late_retry(scene: Scene) -> Bill:
    """Of what the window has in a page."""
    table = Dictionary()
    want(table, str(uuid4()), scene.sender.key)
    with table.answering(scene.clients):
        [first, *_] = _fill_a_page(scene)
        with meter.running() as bill:
            scene.elsewhere().take(first)
    return bill


def _fill_a_page(scene: Scene) -> list[EnvelopeMessage]:
    messages = []
    for _ in range(3):
        thirty = scene.observe_new(30)
        scene.take(*thirty)
        scene.clock.advance(60)
        messages += thirty
    return messages


def late_backlog(scene: Scene) -> Bill:
    """Ten that were observed forty minutes ago, for one who was sent thirty a minute ever since."""
    table = Dictionary()
    want(table, str(uuid4()), scene.sender.key)
    with table.answering(scene.clients):
        late = scene.observe_new(10)
        for _ in range(40):
            scene.clock.advance(60)
            scene.take(*scene.observe_new(30))
        with meter.running() as bill:
            scene.elsewhere().take(*late)
    return bill


def second_phone(scene: Scene) -> Bill:
    """Of a client that is known to the worker: both phones want the statement."""
    client_id = uuid4().bytes * 2
    for _ in range(2):
        scene.subscribe(client_id=client_id)
    scene.take(*scene.observe_new(1))
    with meter.running() as bill:
        scene.take(*scene.observe_new(1))
    return bill


def _full_phone(scene: Scene) -> tuple[Dictionary, list[Scene]]:
    """A phone that wants forty senders, and has been sent as much as it gets in a window."""
    table, phone = Dictionary(), str(uuid4())
    senders = [replace(scene, sender=Sender()) for _ in range(40)]
    for sender in senders:
        want(table, phone, sender.sender.key)
    return table, senders


def hot_phone(scene: Scene) -> Bill:
    """Three hundred within a window, of forty senders, by one."""
    table, senders = _full_phone(scene)
    with table.answering(scene.clients):
        with meter.running() as bill:
            for number in range(BATCH):
                scene.take(*senders[number % 40].observe_new(1))
        assert len(table.sent) == BATCH
    return bill


def capped(scene: Scene) -> Bill:
    table, senders = _full_phone(scene)
    with table.answering(scene.clients):
        for number in range(BATCH):
            scene.take(*senders[number % 40].observe_new(1))
        with meter.running() as bill:
            scene.take(*senders[0].observe_new(1))
        assert len(table.sent) == BATCH
    return bill


def by_way_of_s3(scene: Scene) -> Bill:
    scene.subscribe()
    raw = encode(scene.sender.states(data=bytes(LARGE)))
    boto3.client("s3").put_object(Bucket=scene.settings.oversize_bucket, Key="large", Body=raw)
    with meter.running() as bill:
        scene.take(scene.lost("large"))
    return bill


def large_batch(scene: Scene, pairs: int) -> Bill:
    """One of `BATCH` statements, evenly of so many pairs."""
    table = Dictionary()
    senders = [replace(scene, sender=Sender()) for _ in range(pairs)]
    for sender in senders:
        want(table, str(uuid4()), sender.sender.key)
    messages = [message for sender in senders for message in sender.observe_new(BATCH // pairs)]
    with table.answering(scene.clients), meter.running() as bill:
        assert scene.take(*messages) == set()
    assert len(table.sent) == BATCH
    return bill


def crowd(scene: Scene, size: int) -> Bill:
    """All of a fan-out, each of its messages in an invocation of its own."""
    table, lot = Dictionary(), random.Random(size)
    for _ in range(size):
        want(table, str(UUID(int=lot.getrandbits(128), version=4)), scene.sender.key)
    waiting: list[MatchMessage] = [*scene.observe_new(1)]
    with table.answering(scene.clients), meter.running() as bill:
        while waiting:
            assert scene.take(waiting.pop()) == set()
            waiting += table.taken_from(scene.settings.pages_queue_url)
    assert len(table.sent) == size
    return bill


def surplus_page(scene: Scene) -> Bill:
    """Of a fan-out: a crash between sending it and returning sends it again, under another token."""
    for _ in range(3):
        scene.subscribe()
    [message] = scene.observe_new(1)
    first, second = (
        PageMessage(**message.observation, span=Span(after="", until="~"), page=1, token=uuid4()) for _ in range(2)
    )
    scene.take(first)
    with meter.running() as bill:
        scene.take(second)
    return bill


def want(table: Dictionary, subscription_id: str, sender: bytes) -> None:
    now = int(time.time() * 1000)
    table.keep(
        Subscription(
            subscription_id,
            client_id=uuid4().bytes * 2,
            network=STATEMENTS,
            channel=Channel.APNS.value,
            token="a" * 64,
            status=SubscriptionStatus.ACTIVE.value,
            generation=1,
            rule_count=1,
            created_at=now,
            updated_at=now,
        )
    )
    key = key_of(sender, TOPIC)
    table.keep(RuleRow(subscription_id, rule_key(1, key), key=key))


PATHS = (
    Path("forged, malformed, expired", forged),
    Path("unmatched", unmatched),
    Path("second look at one that has its push", second_look_in_vain),
    Path("in cooldown", in_cooldown),
    Path("in a cooldown that the worker knows", in_known_cooldown),
    Path("one too many: starts the cooldown", over_the_limit),
    Path("capped: its subscription is full", capped),
    Path("duplicate", duplicate),
    Path("delivered to one, pair new to the worker", new_pair, delivered=True),
    Path("delivered to one, pair known to the worker", known_pair, delivered=True),
    Path("delivered to one, one of eight windows stale", stale_window, per=8, delivered=True),
    Path("ten of one sender for one client in a batch, each", ten_at_once, per=10, delivered=True),
    Path("300 in a batch, each of another pair", partial(large_batch, pairs=BATCH), per=BATCH, delivered=True),
    Path("300 in a batch, ten of each pair", partial(large_batch, pairs=BATCH // 10), per=BATCH, delivered=True),
    Path("delivered to one, by more than 60 in two hours", busy_pair, per=30, delivered=True),
    Path("delivered to two phones of one client, each", second_phone, per=2, delivered=True),
    Path("delivered to one, that gets 300 of 40 senders in a minute", hot_phone, per=BATCH, delivered=True),
    Path("delivered to one, 40 minutes late, ten in a batch, each", late_backlog, per=10, delivered=True),
    Path("delivered to one, by way of S3", by_way_of_s3, delivered=True),
    Path("delivered to one whose rules changed lately", changed_lately, delivered=True),
    Path("delivered to one by a second look", second_look, delivered=True),
    Path("delivered again, by the same receipt", retry, delivered=True),
    Path("delivered again, after a page of its window was made", late_retry, delivered=True),
    Path("delivered to 100, each", partial(crowd, size=100), per=100, delivered=True),
    Path("delivered to 2,000, each", partial(crowd, size=2_000), per=2_000, delivered=True),
    Path("delivered to 100,000, each", partial(crowd, size=100_000), per=100_000, delivered=True, long=True),
    Path("page of a fan-out that was sent once too often", surplus_page),
)


def costs() -> dict[str, Cost]:
    """In a deployment of the emulation's; each path with a worker of its own."""
    settings = MatchSettings.from_environment(deploy() | {"CLARION_FAN_OUT_PAGE": str(PAGE)})
    clients = MatchClients.make(PREFIX)._replace(executor=InTurn())
    return {path.name: path.cost(Scene(settings, clients)) for path in PATHS}


def table(costs: Mapping[str, Cost]) -> str:
    rows = [
        "| path | read units | write units | SQS sends | dollars a million |",
        "|---|--:|--:|--:|--:|",
        *(
            f"| {name} | {cost.reads:.2f} | {cost.writes:.2f} | {cost.sent:.2f} | {cost.dollars:.2f} |"
            for name, cost in costs.items()
        ),
    ]
    return "\n".join(rows)


def read_table(page: str) -> dict[str, Cost]:
    """Undo `table`, wherever on the page it stands."""
    lines = page.splitlines()
    start = lines.index(table({}).splitlines()[0]) + 2
    rows = (line.strip("| ").split(" | ") for line in takewhile(lambda line: line.startswith("|"), lines[start:]))
    return {name: Cost(*map(float, figures)) for name, *figures in rows}


def main() -> None:
    os.environ |= credentials()
    with mock_aws(), redirect_stdout(StringIO()):
        measured = costs()
    print(table(measured))
