"""What each operation costs in DynamoDB write units, against the table in docs/api.md."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from api.worker import ApiWorker
from clarion.cleanup import erase_dead
from clarion.tables import Quota, RuleRow, Subscription, Token
from tests.api.proving import Inbox

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
RULES = "/v1/subscriptions/rules"
INDEXED = {"clarion-test-rules", "clarion-test-subscriptions"}
"""A row that comes or goes costs a unit more in its table's index. All rows are below 1 KB."""


class Meter:
    """Counts the units of all requests: a transaction costs twice, an index once more."""

    def __init__(self) -> None:
        self.units = 0

    def __call__(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        match model.name:
            case "UpdateItem":
                self.units += 1
            case "BatchWriteItem":
                self.units += sum(len(rows) * self._indexed(table, 1) for table, rows in params["RequestItems"].items())
            case "TransactWriteItems":
                self.units += sum(self._transacted(*one) for item in params["TransactItems"] for one in item.items())

    def _transacted(self, kind: str, item: dict[str, Any]) -> int:
        return 2 if kind == "Update" else self._indexed(item["TableName"], 2)

    def _indexed(self, table: str, units: int) -> int:
        return units + (table in INDEXED)


@contextmanager
def metered(worker: ApiWorker) -> Iterator[Meter]:
    meter = Meter()
    connections = {model._get_connection().connection for model in (Subscription, Token, RuleRow, Quota)}
    clients = {connection.client for connection in connections | {worker.connection}}
    for client in clients:
        client.meta.events.register("before-parameter-build.dynamodb", meter)
    yield meter
    for client in clients:
        client.meta.events.unregister("before-parameter-build.dynamodb", meter)


@pytest.fixture(scope="module")
def documented() -> dict[str, int]:
    rows = re.findall(r"^\| (.+?) \| ([\d,]+) \|", DOCS.read_text(), re.MULTILINE)
    return {what: int(units.replace(",", "")) for what, units in rows}


def rules(first: int, end: int) -> list[dict[str, str]]:
    return [{"sender_pubkey": "ab" * 32, "topic": f"{n:064x}"} for n in range(first, end)]


def test_registering_costs_what_the_docs_say(client: Any, register: Any, worker: ApiWorker, documented: Any) -> None:
    with metered(worker) as meter:
        register(client)
    assert meter.units == documented["register a subscription"]


def test_a_takeover_costs_what_the_docs_say(new_client: Callable[[], Any], worker: ApiWorker, documented: Any) -> None:
    holder, client = new_client(), new_client()
    token, inbox = {"notificationType": "apns", "token": "4e" * 32}, Inbox(worker)
    holder("POST", "/v1/subscriptions", token)
    inbox.pushes()
    with metered(worker) as meter:
        name = client("POST", "/v1/subscriptions", token).json["subscription_id"]
    assert meter.units == documented["register a token that another client has"]
    with metered(worker) as meter:
        assert client("POST", f"/v1/subscriptions/{name}/proof", {"code": inbox.code()}).status == 200
    assert meter.units == documented["hand its code back"]


@pytest.mark.parametrize("size", [10, 1_000, 10_000])
def test_a_first_rule_set_costs_what_the_docs_say(
    client: Any,
    register: Callable[..., str],
    worker: ApiWorker,
    documented: Any,
    size: int,
) -> None:
    sid = register(client)
    with metered(worker) as meter:
        assert client("PUT", RULES, {"subscription_id": sid, "rules": rules(0, size)}).status == 204
    assert meter.units == documented[f"PUT {size:,} rules, the first time"]


def test_single_rules_cost_what_the_docs_say(client: Any, register: Any, worker: ApiWorker, documented: Any) -> None:
    body = {"subscription_id": register(client), "rules": rules(0, 1)}
    for method in ("POST", "DELETE"):
        with metered(worker) as meter:
            client(method, RULES, body)
        assert meter.units == documented[f"{method} 1 rule"]


def test_replacing_all_costs_the_removal_of_the_old_rules_too(
    client: Any, register: Any, worker: ApiWorker, documented: Any
) -> None:
    sid = register(client)
    client("PUT", RULES, {"subscription_id": sid, "rules": rules(0, 150)})
    with metered(worker) as meter:
        client("PUT", RULES, {"subscription_id": sid, "rules": rules(0, 150)})
    assert meter.units == documented["PUT the same rules again"]
    with metered(worker) as meter:
        client("PUT", RULES, {"subscription_id": sid, "rules": rules(150, 300)})
        erase_dead(worker.connection, sid, through=0)
    assert meter.units == documented["PUT 150 rules instead of 150 others"]
