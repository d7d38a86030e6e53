"""`/v1/walletconnect/subscriptions`: a wallet's devices and the topics that they are pushed for."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from api.worker import ApiWorker
from clarion.decisions import Wanted
from clarion.networks import STATEMENTS, WALLETCONNECT, Rule, network
from clarion.networks.walletconnect.rules import MAX_TYPES, key_of
from clarion.networks.walletconnect.sealed import SealedNotification
from clarion.tables import RuleRow
from tests.dapps import OTHER_TYPE, TYPE

SUBSCRIPTIONS, RULES = "/v1/walletconnect/subscriptions", "/v1/walletconnect/subscriptions/rules"
ONE, TWO, THREE = ("01" * 32, "02" * 32, "03" * 32)
OF_ONE_TYPE = {"topic": TWO, "types": [TYPE]}


@pytest.fixture
def wallet(client: Any, policy: Callable[..., ApiWorker]) -> Any:
    """A phone whose deployment has WalletConnect."""
    return replace(client, worker=policy(networks=(STATEMENTS, WALLETCONNECT), rules_per_request=3))


@pytest.fixture
def device(wallet: Any) -> str:
    answer = wallet("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": uuid4().hex * 2})
    assert (answer.status, answer.json["status"]) == (201, "active")
    return str(answer.json["subscription_id"])


def broken(answer: Any) -> list[str]:
    """The fields of a body that was refused."""
    assert (answer.status, answer.json["type"]) == (422, "urn:clarion:problem:invalid"), answer.text
    return [each["field"] for each in answer.json["errors"]]


def topics(wallet: Any) -> Any:
    [listed] = wallet("GET", SUBSCRIPTIONS).json
    return listed["rules"]


def test_a_device_names_the_topics_that_it_is_pushed_for(wallet: Any, device: str) -> None:
    put = wallet("PUT", RULES, {"subscription_id": device, "rules": [{"topic": ONE}, OF_ONE_TYPE]})
    assert (put.status, put.text) == (204, "")
    assert topics(wallet) == [{"topic": ONE}, OF_ONE_TYPE]

    post = wallet("POST", RULES, {"subscription_id": device, "rules": [{"topic": THREE}]})
    assert (post.status, post.json) == (201, {"added": 1, "total_rules": 3})

    delete = wallet("DELETE", RULES, {"subscription_id": device, "topics": [ONE, "ff" * 32]})
    assert (delete.status, delete.json) == (200, {"removed": 1, "total_rules": 2})
    assert topics(wallet) == [OF_ONE_TYPE, {"topic": THREE}]

    gone = wallet("DELETE", SUBSCRIPTIONS, {"subscription_ids": [device]})
    assert (gone.status, gone.text) == (204, "")
    assert wallet("GET", SUBSCRIPTIONS).json == []


def test_its_rules_are_read_by_the_network(wallet: Any, device: str) -> None:
    wallet("PUT", RULES, {"subscription_id": device, "rules": [OF_ONE_TYPE, {"topic": ONE}]})
    stored = {row.key: row.condition for row in RuleRow.query(device)}
    assert stored.keys() == {key_of(bytes.fromhex(topic)) for topic in (ONE, TWO)}
    for kind, wanted in ((TYPE, Wanted.ALERT), (OTHER_TYPE, Wanted.NOT_IN_SCOPE)):
        raw = json.dumps({"topic": TWO, "message": "AAEC", "type": kind, "id": "one", "expires_at": 1}).encode()
        envelope = network(WALLETCONNECT).decode(raw)
        assert isinstance(envelope.content, SealedNotification)
        [key] = envelope.keys
        assert network(WALLETCONNECT).wants(envelope, Rule(key, stored[key]), 0) is wanted


def test_types_may_be_changed(wallet: Any, device: str) -> None:
    for types in ([TYPE], [OTHER_TYPE, TYPE]):
        wallet("POST", RULES, {"subscription_id": device, "rules": [{"topic": ONE, "types": types}]})
    assert topics(wallet) == [{"topic": ONE, "types": sorted([OTHER_TYPE, TYPE])}]


def test_a_device_is_of_its_network_alone(wallet: Any, device: str) -> None:
    statement = {"sender_pubkey": "ab" * 32, "topic": ONE}
    refused = wallet("PUT", "/v1/subscriptions/rules", {"subscription_id": device, "rules": [statement]})
    assert refused.status == 404
    assert wallet("GET", "/v1/subscriptions").json == []
    shown = wallet("GET", f"/v1/subscriptions/{device}")
    assert (shown.status, shown.json["subscription_id"]) == (200, device)


def test_another_client_finds_nothing(wallet: Any, device: str, new_client: Callable[[], Any]) -> None:
    other = replace(new_client(), worker=wallet.worker)
    assert other("PUT", RULES, {"subscription_id": device, "rules": []}).status == 404
    assert other("DELETE", SUBSCRIPTIONS, {"subscription_ids": [device]}).status == 404
    assert other("GET", SUBSCRIPTIONS).json == []


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ([{"topic": "01"}], "rules[0].topic"),
        ([{"topic": ONE, "types": ["news"]}], "rules[0].types[0]"),
        ([{"topic": ONE, "types": []}], "rules[0].types"),
        ([{"topic": ONE, "types": [TYPE] * (MAX_TYPES + 1)}], "rules[0].types"),
        ([{"topic": ONE}, {"topic": f"0x{ONE}"}], "rules"),
        ([{"topic": f"{number:064x}"} for number in range(4)], "rules"),
        ([{"topic": ONE, "sender": ONE}], "rules[0].sender"),
    ],
    ids=["a short topic", "no UUID", "no types", "too many types", "a topic twice", "too many rules", "another field"],
)
def test_what_is_no_rule_is_refused(wallet: Any, device: str, rules: list[Any], field: str) -> None:
    answer = wallet("PUT", RULES, {"subscription_id": device, "rules": rules})
    assert broken(answer) == [field]
    assert topics(wallet) == []


@pytest.mark.parametrize("channel", ["voip", "webhook"])
def test_a_channel_that_the_network_does_not_have_is_refused(wallet: Any, channel: str) -> None:
    answer = wallet("POST", SUBSCRIPTIONS, {"notificationType": channel, "token": uuid4().hex * 2})
    assert "notificationType" in broken(answer)


def test_a_long_list_comes_in_pages(wallet: Any, device: str) -> None:
    rules = [{"topic": f"{number:064x}"} for number in range(3)]
    wallet("PUT", RULES, {"subscription_id": device, "rules": rules})
    paged = replace(wallet, worker=replace(wallet.worker, settings=_by_two(wallet.worker)))
    first = paged("GET", SUBSCRIPTIONS)
    following = first.headers["Link"].partition("<")[2].partition(">")[0]
    assert following.startswith(f"{SUBSCRIPTIONS}?cursor=")
    second = paged("GET", following)
    assert [*first.json[0]["rules"], *second.json[0]["rules"]] == rules
    assert "Link" not in second.headers


def _by_two(worker: ApiWorker) -> Any:
    return worker.settings.model_copy(update={"rules_per_page": 2})


def test_where_the_network_is_not_deployed_there_is_no_such_route(client: Any) -> None:
    assert client("GET", SUBSCRIPTIONS).json["type"] == "urn:clarion:problem:no-route"
