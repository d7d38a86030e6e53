import json

import pytest
from pydantic import ValidationError

from clarion.networks import STATEMENTS, XMTP, network
from clarion.networks.needs import Nodes
from clarion.settings import NodeBudget
from ingest.settings import FirstReplay, IngestSettings
from tests.toy import TOY

NODES = {"CLARION_NODES": '{"statements": ["wss://one.example"]}'}
ENVIRONMENT = {
    "CLARION_ENVELOPES_QUEUE_URL": "https://queue.example",
    "CLARION_OVERSIZE_BUCKET": "bucket",
    "CLARION_EVENTS_STREAM": "events",
    "CLARION_LATE_EVENTS_QUEUE_URL": "late-events",
}


def settings_of(*networks: str, **others: object) -> IngestSettings:
    """As the task reads them; `others` are given as JSON."""
    given = {f"CLARION_{name.upper()}": json.dumps(value) for name, value in others.items()}
    return IngestSettings.from_environment(ENVIRONMENT | {"CLARION_NETWORKS": ",".join(networks)} | given)


def test_nodes_are_listed_by_network() -> None:
    nodes = {STATEMENTS: ("wss://a.example", "ws://b.example:9944"), XMTP: ("https://one.example:5556",)}
    assert settings_of(STATEMENTS, XMTP, nodes=nodes).nodes == nodes


def test_what_stands_before_the_first_start_is_recorded_unless_asked_otherwise() -> None:
    assert IngestSettings.from_environment(ENVIRONMENT | NODES).first_replay is FirstReplay.RECORD
    asked = IngestSettings.from_environment(ENVIRONMENT | NODES | {"CLARION_FIRST_REPLAY": "handle"})
    assert asked.first_replay is FirstReplay.HANDLE


@pytest.mark.parametrize(
    "nodes", ["", "[]", "wss://a.example", '{"statements": "wss://a.example"}', '{"statements": [1]}']
)
def test_nodes_that_are_no_mapping_of_lists_stop_the_start(nodes: str) -> None:
    with pytest.raises(ValidationError, match="nodes"):
        IngestSettings.from_environment(ENVIRONMENT | {"CLARION_NODES": nodes})


def test_nodes_are_needed_of_the_networks_that_are_followed_alone() -> None:
    nodes = {XMTP: ["https://one.example:5556", "https://two.example"]}
    assert settings_of(XMTP, nodes=nodes)
    for followed in ([STATEMENTS], [STATEMENTS, XMTP]):
        with pytest.raises(ValidationError, match="no node to follow: statements"):
            settings_of(*followed, nodes=nodes)
    with pytest.raises(ValidationError, match="no node to follow: xmtp"):
        settings_of(XMTP, nodes={XMTP: []})


@pytest.mark.usefixtures("toy")
def test_a_further_network_s_nodes_and_their_budget_are_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    its_own, another = (NodeBudget(message_bytes=size, bytes_per_second=10 * size) for size in (10, 20))
    toy = network(TOY)
    needed = Nodes("toy_nodes", r"toy:.+", ("toy:one",), its_own)
    monkeypatch.setattr(type(toy), "needs", toy.needs._replace(nodes=needed))
    assert settings_of(TOY, nodes={TOY: ["toy:box"]}).budget(TOY) == its_own
    changed = settings_of(TOY, nodes={TOY: ["toy:box"]}, node_budgets={TOY: another.model_dump()})
    assert changed.budget(TOY) == another
    with pytest.raises(ValidationError, match="toy_nodes: a node's address is such as toy:one"):
        settings_of(TOY, nodes={TOY: ["https://one.example"]})


def test_a_network_whose_nodes_have_no_budget_is_asked_for_none() -> None:
    with pytest.raises(LookupError, match="statements"):
        IngestSettings.from_environment(ENVIRONMENT | NODES).budget(STATEMENTS)


def test_an_envelope_of_xmtp_may_be_twice_as_large_as_its_network_lets_a_message_be() -> None:
    budget = settings_of(XMTP, nodes={XMTP: ["https://one.example"]}).budget(XMTP)
    assert 2_000_000 < budget.message_bytes < 2_100_000


def test_all_networks_together_have_no_more_nodes_than_shares_there_are() -> None:
    nodes = {STATEMENTS: ["wss://one.example"] * 32, XMTP: ["https://one.example"] * 31}
    assert settings_of(STATEMENTS, XMTP, nodes=nodes)
    assert settings_of(XMTP, nodes={STATEMENTS: ["wss://one.example"] * 64, XMTP: ["https://one.example"]})
    with pytest.raises(ValidationError, match="more than 63 nodes"):
        settings_of(STATEMENTS, XMTP, nodes=nodes | {XMTP: ["https://one.example"] * 32})


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *((STATEMENTS, url) for url in ("", "http://one.example", "one.example")),
        *((XMTP, url) for url in ("http://one.example", "https://one.example/path", "one.example:5556")),
        (XMTP, "https://key@one.example"),
    ],
)
def test_an_address_that_no_node_of_its_network_can_have_stops_the_start(name: str, url: str) -> None:
    with pytest.raises(ValidationError, match="a node's address is such as"):
        settings_of(name, nodes={name: [url]})
