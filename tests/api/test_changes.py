"""What else of a subscription is changed, and how it is named."""

import json
from typing import Any
from uuid import uuid4

import pytest

from api.worker import ApiWorker
from clarion import base64url, subscriptions
from clarion.addresses import WebhookAddress
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.subscriptions import Registration
from clarion.tables import Subscription
from tests.api.proving import RULE, RULES, SUBSCRIPTIONS, new_token, register
from tests.api.test_problems import assert_problem

KEY = base64url.encode(bytes(range(32)))


def test_a_change_leaves_alone_what_it_does_not_name(client: Any) -> None:
    token = new_token()
    name = register(client, token, environment="sandbox")["subscription_id"]
    path = f"{SUBSCRIPTIONS}/{name}"
    whole = {"subscription_id": name, "notificationType": "apns", "token": token, "status": "active"}
    changed = client("PATCH", path, {"app": "tablet", "device_key": KEY, "wake_every_minutes": 30})
    options = {"app": "tablet", "device_key": KEY, "wake_every_minutes": 30}
    assert (changed.status, changed.json) == (200, {**whole, "environment": "sandbox", **options})
    assert client("PATCH", path, {}).json == changed.json
    client("PATCH", path, {"device_key": None, "wake_every_minutes": None, "environment": "production"})
    assert client("GET", path).json == {**whole, "environment": "production", "app": "tablet"}


@pytest.mark.parametrize(
    ("channel", "field", "value"),
    [
        ("apns", "app", "unknown"),
        ("apns", "environment", "moon"),
        ("apns", "device_key", base64url.encode(bytes(32))),
        ("apns", "device_key", base64url.encode(bytes(31))),
        ("apns", "device_key", 7),
        ("apns", "wake_every_minutes", 19),
        ("apns", "wake_every_minutes", 1441),
        ("apns", "wake_every_minutes", "30"),
        ("voip", "wake_every_minutes", 30),
    ],
)
def test_a_change_or_a_registration_that_breaks_a_rule_names_the_field(
    client: Any, channel: str, field: str, value: Any
) -> None:
    name = register(client, new_token(), notificationType=channel)["subscription_id"]
    body = {"notificationType": channel, "token": new_token(), field: value}
    for answer in (client("PATCH", f"{SUBSCRIPTIONS}/{name}", {field: value}), client("POST", SUBSCRIPTIONS, body)):
        assert_problem(answer, 422, "invalid")
        assert [error["field"] for error in answer.json["errors"]] == [field]


@pytest.mark.parametrize("name", ["notificationType", "notification_type", "platform"])
def test_every_member_may_be_spelt_in_camel_case(client: Any, name: str) -> None:
    options = {"deviceKey": KEY, "wakeEveryMinutes": 30}
    made = client("POST", SUBSCRIPTIONS, {name: "apns", "token": new_token(), **options}).json["subscription_id"]
    path = f"{SUBSCRIPTIONS}/{made}"
    assert client("PATCH", path, {"wakeEveryMinutes": 40, "wake_every_minutes": 40}).json["device_key"] == KEY
    assert client("GET", path).json["wake_every_minutes"] == 40
    assert client("PUT", f"{path}/token", {name: "apns", "token": new_token()}).status == 200
    rule = {"senderPubkey": RULE["sender_pubkey"], "topic": RULE["topic"], "notifyType": "voip"}
    assert client("PUT", RULES, {"subscriptionId": made, "rules": [rule]}).status == 204
    assert client("DELETE", SUBSCRIPTIONS, {"subscriptionIds": [made]}).status == 204


@pytest.mark.parametrize(
    "body",
    [
        {"wakeEveryMinutes": 40, "wake_every_minutes": 30},
        {"deviceKey": KEY, "device_key": f"b{KEY[1:]}"},
        {"deviceKey": KEY, "device_key": KEY.lower()},
        {"deviceKey": KEY, "device_key": None},
    ],
)
def test_two_spellings_of_one_member_must_not_differ(client: Any, body: dict[str, Any]) -> None:
    name = register(client, new_token())["subscription_id"]
    assert_problem(client("PATCH", f"{SUBSCRIPTIONS}/{name}", body), 422, "invalid")


def test_a_move_to_a_webhook_drops_the_options_that_it_does_not_have(client: Any, worker: ApiWorker) -> None:
    options: Any = {"device_key": bytes(range(32)), "wake_every_minutes": 30}
    before = Registration("xmtp", client.key, Channel.APNS, new_token(), **options)
    row = subscriptions.register(worker.connection, before, now=now_ms())
    assert isinstance(row, Subscription)
    address = WebhookAddress(client=client.key.hex(), installation_id="i", token="t").text
    after = Registration("xmtp", client.key, Channel.WEBHOOK, address)
    subscriptions.move(worker.connection, row, after, now=now_ms())
    left = Subscription.get(row.subscription_id).attribute_values
    assert left["channel"] == "webhook"
    assert not {"device_key", "wake_every_minutes"} & {name for name, value in left.items() if value is not None}


def test_an_id_that_is_none_is_no_address(client: Any) -> None:
    assert_problem(client("GET", f"{SUBSCRIPTIONS}/none"), 404, "no-route")
    wrong = client("POST", f"{SUBSCRIPTIONS}/{uuid4()}")
    assert_problem(wrong, 405, "wrong-method")
    assert wrong.headers["Allow"] == "GET, PATCH"
    assert client("GET", RULES).headers["Allow"] == "DELETE, POST, PUT"
    assert json.loads(client("GET", f"{SUBSCRIPTIONS}/{uuid4()}/token").text)["status"] == 405
