from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID, uuid4

import boto3

from api.worker import ApiWorker
from clarion.decisions import NotificationDecision, PushDecision
from clarion.deliveries import DeliveryRecord, pack
from tests.api.conftest import Client
from tests.api.proving import SUBSCRIPTIONS, Inbox, prove, register


def registered(client: Client) -> str:
    body = {"notificationType": "fcm", "token": f"fcm:{uuid4()}"}
    return str(client("POST", SUBSCRIPTIONS, body).json["subscription_id"])


def deliveries(subscription_id: str) -> str:
    return f"{SUBSCRIPTIONS}/{subscription_id}/deliveries"


def indexed(subscription_id: str, refused: NotificationDecision | None = None) -> datetime:
    """One that was delivered, unless it was `refused`."""
    now = datetime.now(UTC).replace(microsecond=0)
    name, at = UUID(subscription_id), int(now.timestamp() * 1000)
    delivered = DeliveryRecord(name, at, PushDecision.DELIVERED, 119, 1)
    content = pack([DeliveryRecord(name, at, refused) if refused else delivered])
    key = f"deliveries/day={now:%Y-%m-%d}/hour={now:%H}/{uuid4()}.jsonl.gz"
    boto3.client("s3").put_object(Bucket="lake", Key=key, Body=content)
    return now


def test_a_client_learns_what_became_of_its_pushes_and_nothing_of_anothers(new_client: Callable[[], Client]) -> None:
    client, stranger = new_client(), new_client()
    subscription_id = registered(client)
    at = indexed(subscription_id)
    answer = client("GET", deliveries(subscription_id))
    assert answer.status == 200
    assert answer.json["deliveries"] == [
        {
            "at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "network": "statements",
            "decision": "delivered",
            "latency_ms": 119,
            "attempt": 1,
        }
    ]
    for asked in (stranger("GET", deliveries(subscription_id)), client("GET", deliveries(str(uuid4())))):
        assert asked.status == 404
        assert asked.json["type"] == "urn:clarion:problem:no-subscription"


def test_what_was_decided_before_a_push_has_neither_latency_nor_attempt(new_client: Callable[[], Client]) -> None:
    client = new_client()
    subscription_id = registered(client)
    indexed(subscription_id, NotificationDecision.RATE_LIMITED)
    [listed] = client("GET", deliveries(subscription_id)).json["deliveries"]
    assert (listed["decision"], listed["latency_ms"], listed["attempt"]) == ("rate_limited", None, None)


def test_what_came_before_the_token_was_replaced_is_listed_still(client: Client) -> None:
    token = uuid4().hex * 2
    subscription_id = register(client, token)["subscription_id"]
    begin = client("GET", deliveries(subscription_id)).json["since"]
    indexed(subscription_id)
    for each in (uuid4().hex * 2, token):
        assert client("PUT", f"{SUBSCRIPTIONS}/{subscription_id}/token", {"token": each}).json["status"] == "active"
    answer = client("GET", deliveries(subscription_id)).json
    assert (answer["since"], len(answer["deliveries"])) == (begin, 1)


def test_who_takes_a_token_over_sees_nothing_of_the_one_before(new_client: Callable[[], Client], inbox: Inbox) -> None:
    before, after, token = new_client(), new_client(), uuid4().hex * 2
    old = register(before, token)["subscription_id"]
    indexed(old)
    name = register(after, token)["subscription_id"]
    begin = after("GET", deliveries(name)).json["since"]
    assert prove(after, name, inbox.code()).status == 200
    assert after("GET", deliveries(name)).json == {"since": begin, "deliveries": []}
    assert len(before("GET", deliveries(old)).json["deliveries"]) == 1
    assert after("GET", deliveries(old)).status == 404


def test_a_client_may_look_a_few_times_a_minute(new_client: Callable[[], Client], worker: ApiWorker) -> None:
    client = new_client()
    settings = worker.settings.model_copy(update={"looks_per_minute": 2})
    at = worker.now()
    client.worker = replace(worker, settings=settings, now=lambda: at)
    subscription_id = registered(client)
    statuses = [client("GET", deliveries(subscription_id)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_what_is_no_id_is_no_address(new_client: Callable[[], Client]) -> None:
    answer = new_client()("GET", deliveries("no-uuid"))
    assert answer.status == 404
