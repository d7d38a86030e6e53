"""What each path through match costs, measured on the real code: `make ledger` prints the table of docs/cost.md."""

import os
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from itertools import takewhile
from typing import NamedTuple
from uuid import uuid4

from moto import mock_aws

from clarion.messages import Span
from clarion.prices import READ_UNIT
from match.room import Clients
from match.settings import MatchSettings
from tests.match.meter import Bill, meter
from tests.match.scene import PREFIX, InTurn, Scene, credentials, deploy

PAGE = 250
"""As deployed: the default of the settings."""
DISPATCH_READ = 0.5
"""What dispatch reads for each push: the subscription's row, with its token."""


class Cost(NamedTuple):
    """For one statement, or one notification, all told."""

    reads: float
    writes: float
    sent: float
    dollars: float


class Path(NamedTuple):
    """`plays` makes a new sandbox's scene go down the path; `per` is how many statements or notifications it then was."""

    name: str
    plays: Callable[[Scene], Bill]
    per: int = 1
    delivered: bool = False

    def cost(self, scene: Scene) -> Cost:
        bill = self.plays(scene)
        reads, dollars = bill.reads / self.per, bill.dollars / self.per
        if self.delivered:
            reads, dollars = reads + DISPATCH_READ, dollars + DISPATCH_READ * READ_UNIT
        return Cost(reads, bill.writes / self.per, bill.sent / self.per, dollars)


def unmatched(scene: Scene) -> Bill:
    [message] = scene.observe_new(1)
    scene.clock.advance(60)
    with meter.running() as bill:
        scene.take(message)
    return bill


def unmatched_twice(scene: Scene) -> Bill:
    with meter.running() as bill:
        scene.take(*scene.observe_new(1))
        scene.take(*scene.again())
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


def hundred(scene: Scene) -> Bill:
    for _ in range(100):
        scene.subscribe()
    with meter.running() as bill:
        scene.take(*scene.observe_new(1))
    return bill


def page_of_a_crowd(scene: Scene) -> Bill:
    for _ in range(PAGE + 1):
        scene.subscribe()
    [message] = scene.observe_new(1)
    span = Span(after="", until="~", page=1, token=uuid4())
    with meter.running() as bill:
        scene.take(message.model_copy(update={"span": span}))
    return bill


PATHS = (
    Path("forged, malformed, expired", forged),
    Path("unmatched", unmatched),
    Path("unmatched and young: two looks", unmatched_twice),
    Path("in cooldown", in_cooldown),
    Path("in a cooldown that the sandbox knows", in_known_cooldown),
    Path("one too many: starts the cooldown", over_the_limit),
    Path("duplicate", duplicate),
    Path("delivered to one, pair new to the sandbox", new_pair, delivered=True),
    Path("delivered to one, pair known to the sandbox", known_pair, delivered=True),
    Path("ten of one sender for one client in a batch, each", ten_at_once, per=10, delivered=True),
    Path("delivered again, by the same receipt", retry, delivered=True),
    Path("delivered to 100, each", hundred, per=100, delivered=True),
    Path("delivered to 100,000, each", page_of_a_crowd, per=PAGE, delivered=True),
)


def costs() -> dict[str, Cost]:
    """In a deployment of the emulation's; each path in a sandbox of its own."""
    settings = MatchSettings.from_environment(deploy() | {"CLARION_FAN_OUT_PAGE": str(PAGE)})
    clients = replace(Clients.make(PREFIX), pool=InTurn())
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


if __name__ == "__main__":
    main()
