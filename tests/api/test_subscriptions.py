import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from clarion import base64url
from clarion.channels import Channel
from clarion.event_log import EventLog
from clarion.events import Event
from clarion.networks.statements.rules import key_of
from clarion.subscription_events import RuleRef, RulesChanged

A, B = "ab" * 32, "cd" * 32
T1, T2 = "01" * 32, "02" * 32
RULES = "/v1/subscriptions/rules"


def rule(sender: str, topic: str) -> dict[str, str]:
    return {"sender_pubkey": sender, "topic": topic}


def test_the_documents_walk_through(client: Any, register: Callable[..., str]) -> None:
    sid = register(client)
    three = [rule(A, T1), rule(A, T2), rule(B, T1)]

    put = client("PUT", RULES, {"subscription_id": sid, "rules": three})
    assert (put.status, put.text) == (204, "")

    post = client("POST", RULES, {"subscription_id": sid, "rules": [rule(B, T2)]})
    assert (post.status, post.json) == (201, {"added": 1, "total_rules": 4})

    delete = client("DELETE", RULES, {"subscription_id": sid, "rules": three[:1]})
    assert (delete.status, delete.json) == (200, {"removed": 1, "total_rules": 3})

    listed = client("GET", "/v1/subscriptions")
    assert listed.status == 200
    [subscription] = listed.json
    assert subscription["subscription_id"] == sid
    assert subscription["rules"] == [rule(A, T2), rule(B, T1), rule(B, T2)]

    gone = client("DELETE", "/v1/subscriptions", {"subscription_ids": [sid]})
    assert (gone.status, gone.text) == (204, "")
    assert client("GET", "/v1/subscriptions").json == []


@pytest.mark.parametrize("field", ["notificationType", "platform"])
@pytest.mark.parametrize("notify_type", ["apns", "voip", "fcm"])
def test_a_subscription_says_what_it_was_registered_with(client: Any, field: str, notify_type: str) -> None:
    token = uuid4().hex * 2
    assert client("POST", "/v1/subscriptions", {field: notify_type, "token": token}).status == 201
    [listed] = client("GET", "/v1/subscriptions").json
    listed.pop("subscription_id")
    assert listed == {"notificationType": notify_type, "token": token, "status": "active", "rules": []}


def test_a_device_token_is_the_same_in_either_case_with_or_without_0x(client: Any, register: Any) -> None:
    token = uuid4().hex * 2
    sid = register(client, notificationType="apns", token=f"0x{token.upper()}")
    assert client("GET", "/v1/subscriptions").json[0]["token"] == token
    again = client("POST", "/v1/subscriptions", {"notificationType": "apns", "token": token})
    assert (again.status, again.json["subscription_id"]) == (409, sid)


def test_a_token_of_firebase_keeps_its_case(client: Any, register: Any) -> None:
    token = "dQ:APA91bH_" + uuid4().hex.upper()
    register(client, platform="fcm", token=token)
    assert client("GET", "/v1/subscriptions").json[0]["token"] == token


def test_a_browser_registers_its_subscription_as_json(client: Any, register: Any) -> None:
    point = ec.generate_private_key(ec.SECP256R1()).public_key()
    raw = point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    keys = {"p256dh": base64url.encode(raw), "auth": base64url.encode(bytes(16))}
    address = {"endpoint": f"https://fcm.googleapis.com/fcm/send/{uuid4().hex}", **keys}
    sid = register(client, platform="webpush", token=json.dumps(address, indent=2))
    [listed] = client("GET", "/v1/subscriptions").json
    assert (listed["notificationType"], json.loads(listed["token"])) == ("webpush", address)
    turned = json.dumps(dict(reversed(address.items())))
    encoded = json.dumps(address | {"endpoint": address["endpoint"].replace("send/", "%73en%64%2F")})
    for same in (turned, encoded):
        again = client("POST", "/v1/subscriptions", {"platform": "webpush", "token": same})
        assert (again.status, again.json["subscription_id"]) == (409, sid)
    for wrong in (uuid4().hex * 2, json.dumps(address | {"auth": "secret-of-mine"})):
        refused = client("POST", "/v1/subscriptions", {"platform": "webpush", "token": wrong})
        assert (refused.status, refused.json["errors"][0]["field"]) == (422, "token")
        assert "secret-of-mine" not in refused.text


def test_statements_do_not_go_by_the_webhook(client: Any) -> None:
    token = json.dumps({"installation_id": "a phone", "token": uuid4().hex})
    refused = client("POST", "/v1/subscriptions", {"platform": "webhook", "token": token})
    rule = "must be one of apns, voip, fcm, webpush"
    assert (refused.status, refused.json["errors"]) == (422, [{"field": "platform", "rule": rule}])


def test_a_channel_that_is_not_deployed_is_refused(client: Any) -> None:
    apps = {channel: frozenset({"first"}) for channel in (Channel.APNS, Channel.WEBHOOK)}
    settings = client.worker.settings.model_copy(update={"apps": apps})
    client.worker = replace(client.worker, settings=settings)
    refused = client("POST", "/v1/subscriptions", {"platform": "fcm", "token": "dQ:APA91bH_" + uuid4().hex})
    rule = "must be one that this deployment has: apns"
    assert (refused.status, refused.json["errors"]) == (422, [{"field": "notificationType", "rule": rule}])
    assert client("POST", "/v1/subscriptions", {"platform": "apns", "token": uuid4().hex * 2}).status == 201


def test_a_token_is_free_again_once_its_subscription_is_removed(client: Any, register: Any) -> None:
    token = uuid4().hex * 2
    sid = register(client, notificationType="voip", token=token)
    client("DELETE", "/v1/subscriptions", {"subscription_ids": [sid]})
    assert register(client, notificationType="voip", token=token) != sid


@pytest.mark.parametrize(
    "spelt",
    [
        {"senderPubkey": f"0x{A.upper()}", "notifyType": "voip"},
        {"senderPubkey": A, "notify_type": "voip"},
        {"sender_pubkey": A, "senderPubkey": f"0x{A}", "notify_type": "voip", "notifyType": "voip"},
    ],
    ids=["camel case", "a mixture", "both"],
)
def test_every_spelling_of_a_rules_fields_is_accepted(client: Any, register: Any, spelt: dict[str, str]) -> None:
    sid = register(client)
    body = {"subscription_id": sid, "rules": [spelt | {"topic": f"0X{T1}"}]}
    assert client("PUT", RULES, body).status == 204
    assert client("GET", "/v1/subscriptions").json[0]["rules"] == [rule(A, T1) | {"notify_type": "voip"}]


def test_a_rule_that_is_in_force_already_counts_once(client: Any, register: Any) -> None:
    sid = register(client)
    body = {"subscription_id": sid, "rules": [rule(A, T1), rule(A, T1)]}
    assert client("POST", RULES, body).json == {"added": 1, "total_rules": 1}
    assert client("POST", RULES, body).json == {"added": 0, "total_rules": 1}
    assert client("DELETE", RULES, body).json == {"removed": 1, "total_rules": 0}
    assert client("DELETE", RULES, body).json == {"removed": 0, "total_rules": 0}


class Emitted(EventLog):
    """Keeps what would go to the lake."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        self.events.append(event)

    def flush(self) -> int:
        return 0


def test_a_rule_whose_notify_type_a_post_changes_is_reported_as_added_only(client: Any, register: Any) -> None:
    sid = register(client)
    client("POST", RULES, {"subscription_id": sid, "rules": [rule(A, T1), rule(A, T2)]})
    emitted = Emitted()
    client.worker = replace(client.worker, events=emitted)
    client("POST", RULES, {"subscription_id": sid, "rules": [rule(A, T1) | {"notify_type": "voip"}]})
    [event] = emitted.events
    assert isinstance(event, RulesChanged)
    voip = RuleRef(key=key_of(bytes.fromhex(A), bytes.fromhex(T1)), condition=b"voip")
    assert (event.network, event.change, event.rules) == ("statements", "added", (voip,))


def test_a_post_gives_an_existing_rule_another_notify_type(client: Any, register: Any) -> None:
    sid = register(client)
    body = {"subscription_id": sid, "rules": [rule(A, T1)]}
    client("POST", RULES, body)
    for how in ("voip", "alert"):
        changed = {"subscription_id": sid, "rules": [rule(A, T1) | {"notify_type": how}, rule(A, T2)]}
        client("POST", RULES, changed)
        assert client("POST", RULES, changed).json == {"added": 0, "total_rules": 2}
        assert client("GET", "/v1/subscriptions").json[0]["rules"] == [rule(A, T1) | {"notify_type": how}, rule(A, T2)]
    assert client("POST", RULES, body).json == {"added": 0, "total_rules": 2}
    assert client("GET", "/v1/subscriptions").json[0]["rules"][0]["notify_type"] == "alert"


def test_a_large_post_counts_only_the_pairs_that_are_new(client: Any, register: Any) -> None:
    sid = register(client)
    many = [rule(A, f"{n:064x}") for n in range(150)]
    client("PUT", RULES, {"subscription_id": sid, "rules": many[:120]})
    loud = [each | {"notify_type": "voip"} for each in many]
    assert client("POST", RULES, {"subscription_id": sid, "rules": loud}).json == {"added": 30, "total_rules": 150}
    assert client("GET", "/v1/subscriptions").json[0]["rules"] == loud


@pytest.mark.parametrize(("channel", "app"), [("apns", "tablet"), ("voip", "tablet"), ("fcm", "robot")])
def test_a_subscription_may_name_an_app_of_its_channel(client: Any, register: Any, channel: str, app: str) -> None:
    register(client, platform=channel, token=uuid4().hex * 2, app=app)
    assert client("GET", "/v1/subscriptions").json[0]["app"] == app


@pytest.mark.parametrize(("channel", "app"), [("apns", "robot"), ("voip", "robot"), ("fcm", "tablet"), ("fcm", "no")])
def test_an_app_that_the_deployment_does_not_reach_is_refused(client: Any, channel: str, app: str) -> None:
    answer = client("POST", "/v1/subscriptions", {"platform": channel, "token": uuid4().hex * 2, "app": app})
    assert (answer.status, answer.json["type"]) == (422, "urn:clarion:problem:invalid")
    assert [error["field"] for error in answer.json["errors"]] == ["app"]
    assert client("GET", "/v1/subscriptions").json == []


def test_changes_larger_than_a_transaction_are_exact(client: Any, register: Any) -> None:
    sid = register(client)
    many = [rule(A, f"{n:064x}") for n in range(150)]
    body = {"subscription_id": sid, "rules": many}
    assert client("POST", RULES, {"subscription_id": sid, "rules": many[:30]}).json == {"added": 30, "total_rules": 30}
    assert client("POST", RULES, body).json == {"added": 120, "total_rules": 150}
    assert client("GET", "/v1/subscriptions").json[0]["rules"] == many
    fewer = {"subscription_id": sid, "rules": [*many[10:], rule(B, T1)]}
    assert client("DELETE", RULES, fewer).json == {"removed": 140, "total_rules": 10}
    assert client("GET", "/v1/subscriptions").json[0]["rules"] == many[:10]
