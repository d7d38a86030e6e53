"""The common part of the API knows no network, and one client's bytes in another network are another owner's."""

import json
import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest

from api.app import resolver
from api.networks import routes_of
from api.openapi import document
from api.worker import ApiWorker
from clarion import subscriptions
from clarion.channels import Channel
from clarion.networks import XMTP
from clarion.rulesets import Owner, RequestContext, Unchanged
from clarion.subscriptions import Registration, TokenTaken

IMPORTED = """
import json, sys
import api.app, api.authorization, api.rules, api.subscriptions

def of_networks():
    return sorted(name for name in sys.modules if name.startswith(("api.networks.", "clarion.networks.statements")))

before = of_networks()
api.app.resolver(("statements",))
print(json.dumps([before, of_networks()]))
"""
NOW = RequestContext(now=1)


def test_a_network_is_imported_only_if_it_is_enabled() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    before, after = json.loads(ran.stdout)
    assert before == []
    assert "api.networks.statements.routes" in after


def test_without_a_network_there_are_the_common_routes_alone() -> None:
    of_one = "/v1/subscriptions/{subscription_id}"
    paths = {
        "/v1/auth/challenges",
        "/v1/auth/tokens",
        *(of_one + more for more in ("", "/deliveries", "/token", "/proof", "/proof/request")),
    }
    assert set(document(resolver(()))["paths"]) == paths
    assert routes_of("a-network-without-routes").routers == ()


@pytest.fixture
def elsewhere(client: Any) -> Owner:
    """Another network's client, who is known there by the very bytes of this one's key."""
    return Owner(XMTP, client.key)


def test_a_listing_shows_nothing_of_another_network(client: Any, worker: ApiWorker, elsewhere: Owner) -> None:
    subscriptions.register(worker.connection, Registration(*elsewhere, Channel.FCM, str(uuid4())), now=1)
    assert client("GET", "/v1/subscriptions").json == []


def test_the_rules_of_another_network_are_out_of_reach(
    client: Any, register: Any, worker: ApiWorker, elsewhere: Owner
) -> None:
    sid = register(client)
    rules = {bytes(65): b""}
    assert worker.rule_sets.read(sid, elsewhere) is Unchanged.NOT_FOUND
    assert worker.rule_sets.add(sid, elsewhere, rules, NOW) is Unchanged.NOT_FOUND
    assert worker.rule_sets.replace(sid, elsewhere, rules, NOW) is Unchanged.NOT_FOUND
    assert worker.rule_sets.discard(sid, elsewhere, rules, NOW) is Unchanged.NOT_FOUND
    assert subscriptions.remove(worker.connection, [sid], elsewhere) is Unchanged.NOT_FOUND
    assert client("GET", "/v1/subscriptions").json[0]["rules"] == []


def test_a_token_may_have_a_subscription_in_each_network(client: Any, worker: ApiWorker, elsewhere: Owner) -> None:
    token = uuid4().hex * 2
    wanted = Registration(*elsewhere, Channel.APNS, token)
    assert not isinstance(subscriptions.register(worker.connection, wanted, now=1), TokenTaken | Unchanged)
    assert client("POST", "/v1/subscriptions", {"platform": "apns", "token": token}).status == 201
    assert isinstance(subscriptions.register(worker.connection, wanted, now=1), TokenTaken)
