import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from api.worker import ApiWorker
from clarion.channels import Channel
from clarion.cleanup import erase, erase_dead
from clarion.clock import now_ms
from clarion.endings import Death, declare_dead
from clarion.messages import CleanupMessage
from clarion.networks import STATEMENTS
from clarion.rulesets import Owner, RequestContext, RuleSet, RuleSets, Unchanged
from clarion.secrets import OriginSecret, Secret
from clarion.settings import EventSettings
from clarion.tables import Quota, RuleRow, Subscription, Token
from clarion.tokens import token_hash
from tests.events import event_log

RULES = "/v1/subscriptions/rules"
SUBSCRIPTIONS = "/v1/subscriptions"


def rules(first: int, end: int) -> list[dict[str, str]]:
    return [{"sender_pubkey": "ab" * 32, "topic": f"{n:064x}"} for n in range(first, end)]


def limited(worker: ApiWorker, **limits: int) -> ApiWorker:
    settings = worker.settings.model_copy(update=limits)
    rule_sets = RuleSets(
        worker.connection, limit=settings.rules_per_subscription, request_cleanup=worker.cleanup.send_claim
    )
    return replace(worker, settings=settings, rule_sets=rule_sets)


def stored(sid: str) -> int:
    return RuleRow.count(sid, consistent_read=True)


def requested(worker: ApiWorker, sid: str) -> list[CleanupMessage]:
    """Takes all messages from the cleanup queue and returns those that name the subscription."""
    sqs, url, found = boto3.client("sqs"), worker.settings.cleanup_queue_url, list[CleanupMessage]()
    while received := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        found += [CleanupMessage.model_validate_json(message["Body"]) for message in received]
    return [message for message in found if UUID(sid) in message.subscription_ids]


def pages(client: Any) -> list[list[dict[str, Any]]]:
    found, path = [], SUBSCRIPTIONS
    while path:
        answer = client("GET", path)
        assert answer.status == 200, answer.text
        found.append(answer.json)
        link = re.fullmatch(r'<(.+)>; rel="next"', answer.headers.get("Link", ""))
        path = link[1] if link else ""
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7])
def test_pages_together_are_the_whole_list(client: Any, register: Any, worker: ApiWorker, size: int) -> None:
    wanted: dict[str, list[dict[str, str]]] = {}
    for count in (0, 3, 2, 0):
        sid = register(client)
        wanted[sid] = rules(0, count)
        client("PUT", RULES, {"subscription_id": sid, "rules": wanted[sid]})
    client.worker = limited(worker, rules_per_page=size)
    found: dict[str, list[dict[str, str]]] = {}
    for page in pages(client):
        assert sum(len(each["rules"]) for each in page) <= size
        for each in page:
            found.setdefault(each["subscription_id"], []).extend(each["rules"])
    assert found == wanted


def test_rules_that_change_between_pages_are_never_mixed(client: Any, register: Any, worker: ApiWorker) -> None:
    sid = register(client)
    client("PUT", RULES, {"subscription_id": sid, "rules": rules(0, 4)})
    client.worker = limited(worker, rules_per_page=2)
    following = client("GET", SUBSCRIPTIONS).headers["Link"].partition(">")[0].removeprefix("<")
    client("POST", RULES, {"subscription_id": sid, "rules": rules(9, 10)})
    answer = client("GET", following)
    assert (answer.status, answer.json["type"]) == (409, "urn:clarion:problem:rules-changed")


def test_a_cursor_shows_nobody_elses_subscription(
    new_client: Callable[[], Any], register: Any, worker: ApiWorker
) -> None:
    owner, other = new_client(), new_client()
    sid = register(owner)
    owner("PUT", RULES, {"subscription_id": sid, "rules": rules(0, 2)})
    owner.worker = limited(worker, rules_per_page=1)
    following = owner("GET", SUBSCRIPTIONS).headers["Link"].partition(">")[0].removeprefix("<")
    assert other("GET", following).json == []


def test_a_request_has_only_so_many_rules(client: Any, register: Any, worker: ApiWorker) -> None:
    sid = register(client)
    client.worker = limited(worker, rules_per_request=3)
    assert client("PUT", RULES, {"subscription_id": sid, "rules": rules(0, 3)}).status == 204
    answer = client("POST", RULES, {"subscription_id": sid, "rules": rules(0, 4)})
    assert (answer.status, answer.json["errors"]) == (422, [{"field": "rules", "rule": "must be at most 3"}])


@pytest.mark.parametrize(
    ("path", "body", "field", "most"),
    [(RULES, {"subscription_id": str(uuid4())}, "rules", 10_000), (SUBSCRIPTIONS, {}, "subscription_ids", 33)],
)
def test_a_list_that_is_too_long_is_refused_before_its_items(
    client: Any, path: str, body: dict[str, str], field: str, most: int
) -> None:
    answer = client("DELETE", path, body | {field: [{}] * (most + 1)})
    assert (answer.status, answer.json["errors"]) == (422, [{"field": field, "rule": f"must be at most {most}"}])


def test_a_subscription_has_only_so_many_rules(client: Any, register: Any, worker: ApiWorker) -> None:
    sid = register(client)
    client.worker = limited(worker, rules_per_subscription=3)
    assert client("POST", RULES, {"subscription_id": sid, "rules": rules(0, 3)}).status == 201
    for method, more in (("POST", rules(3, 4)), ("PUT", rules(0, 4))):
        answer = client(method, RULES, {"subscription_id": sid, "rules": more})
        assert (answer.status, answer.json["type"]) == (409, "urn:clarion:problem:too-many-rules")
    assert client("POST", RULES, {"subscription_id": sid, "rules": rules(0, 3)}).json == {"added": 0, "total_rules": 3}


def test_a_client_has_only_so_many_requests_in_ten_seconds(
    client: Any, new_client: Callable[[], Any], worker: ApiWorker
) -> None:
    minute = 60_000 * 29_000_000
    client.worker = replace(limited(worker, requests_per_ten_seconds=2), now=lambda: minute + 45_000)
    assert [client("GET", SUBSCRIPTIONS).status for _ in range(3)] == [200, 200, 429]
    refused = client("GET", SUBSCRIPTIONS)
    assert (refused.headers["Retry-After"], refused.json["type"]) == ("5", "urn:clarion:problem:too-many-requests")
    other = new_client()
    other.worker = client.worker
    assert other("GET", SUBSCRIPTIONS).status == 200
    client.worker = replace(client.worker, now=lambda: minute + 50_000)
    assert client("GET", SUBSCRIPTIONS).status == 200


def charged(client: Any, method: str, sid: str, some: list[dict[str, str]]) -> int:
    """How many rules the change counted as, if it was done."""
    quotas: list[int] = []
    client.worker = replace(client.worker, now=now_ms)
    answer = client(method, RULES, {"subscription_id": sid, "rules": some})
    assert answer.status < 300, answer.text
    for quota in Quota.scan():
        if quota.quota.startswith(f"rules:{client.key.hex()}:"):
            quotas.append(int(quota.used))
            quota.delete()
    return sum(quotas)


def test_a_large_change_counts_the_rules_that_it_writes_and_erases(client: Any, register: Any) -> None:
    sid = register(client)
    assert charged(client, "PUT", sid, rules(0, 150)) == 150
    assert charged(client, "PUT", sid, rules(0, 150)) == 0
    assert charged(client, "PUT", sid, rules(0, 151)) == 0
    assert charged(client, "PUT", sid, rules(150, 300)) == 150 + 151
    assert charged(client, "POST", sid, rules(300, 500)) == 350 + 150
    assert charged(client, "DELETE", sid, rules(0, 400)) == 350 + 100


def test_a_client_changes_only_so_many_rules_a_minute(client: Any, register: Any, worker: ApiWorker) -> None:
    minute = 60_000 * 29_000_000
    first, second = register(client), register(client)
    client.worker = replace(
        limited(worker, rules_per_subscription=150, rules_per_minute=300), now=lambda: minute + 45_000
    )
    assert client("PUT", RULES, {"subscription_id": first, "rules": rules(0, 150)}).status == 204
    assert client("PUT", RULES, {"subscription_id": second, "rules": rules(0, 149)}).status == 204
    before = client("GET", SUBSCRIPTIONS).json
    refused = client("PUT", RULES, {"subscription_id": first, "rules": rules(150, 300)})
    assert (refused.status, refused.headers["Retry-After"]) == (429, "15")
    assert refused.json["type"] == "urn:clarion:problem:too-many-requests"
    assert client("GET", SUBSCRIPTIONS).json == before
    assert client("POST", RULES, {"subscription_id": second, "rules": rules(149, 150)}).status == 201
    client.worker = replace(client.worker, now=lambda: minute + 60_000)
    assert client("PUT", RULES, {"subscription_id": first, "rules": rules(150, 300)}).status == 204


def die(worker: ApiWorker, sid: str, now: int = 1) -> None:
    assert declare_dead(worker.connection, Subscription.get(sid), Death("Unregistered", at=now))


def test_the_oldest_dead_subscription_gives_way_to_a_new_one(client: Any, register: Any, worker: ApiWorker) -> None:
    client.worker = limited(worker, subscriptions_per_client=3)
    made = []
    for number in range(6):
        made.append(register(client))
        die(worker, made[-1], now=number)
    alive = [register(client) for _ in range(2)]
    listed = {row["subscription_id"] for row in client("GET", SUBSCRIPTIONS).json}
    assert listed == {made[-1], *alive}
    register(client)
    answer = client("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": uuid4().hex * 2})
    assert (answer.status, answer.json["type"]) == (409, "urn:clarion:problem:too-many-subscriptions")


def test_a_dead_subscription_has_no_rules_and_takes_none(client: Any, register: Any, worker: ApiWorker) -> None:
    sid = register(client)
    client("PUT", RULES, {"subscription_id": sid, "rules": rules(0, 3)})
    die(worker, sid)
    [listed] = client("GET", SUBSCRIPTIONS).json
    assert (listed["status"], listed["rules"]) == ("invalid", [])
    for method, some in (("PUT", rules(0, 150)), ("PUT", rules(0, 1)), ("POST", rules(0, 1)), ("DELETE", rules(0, 1))):
        answer = client(method, RULES, {"subscription_id": sid, "rules": some})
        assert (answer.status, answer.json["type"]) == (409, "urn:clarion:problem:subscription-invalid")


def test_a_dead_subscription_goes_by_itself(client: Any, register: Any, worker: ApiWorker) -> None:
    sid = register(client)
    assert Subscription.get(sid).ttl is None
    die(worker, sid, now=1_000_000)
    assert Subscription.get(sid).ttl == 1_000 + 30 * 86_400


def test_a_repeated_registration_is_told_its_id_at_the_limit_too(client: Any, register: Any, worker: ApiWorker) -> None:
    client.worker = limited(worker, subscriptions_per_client=1)
    body = {"notificationType": "apns", "token": uuid4().hex * 2}
    sid = register(client, **body)
    again = client("POST", SUBSCRIPTIONS, body)
    assert (again.status, again.json.get("subscription_id")) == (409, sid)


@pytest.mark.parametrize("gone", ["the rules", "the subscription"])
def test_the_clean_up_that_a_change_requests_erases_what_it_put_out_of_force(
    client: Any, register: Any, worker: ApiWorker, gone: str
) -> None:
    sid = register(client)
    client("PUT", RULES, {"subscription_id": sid, "rules": rules(0, 150)})
    requested(worker, sid)
    if gone == "the rules":
        assert client("PUT", RULES, {"subscription_id": sid, "rules": []}).status == 204
    else:
        assert client("DELETE", SUBSCRIPTIONS, {"subscription_ids": [sid]}).status == 204
    assert stored(sid) == 150
    for message in requested(worker, sid):
        assert erase_dead(worker.connection, sid, message.through)
    assert stored(sid) == 0


def test_events_that_neither_firehose_nor_its_queue_takes_are_counted_for_the_stage(
    client: Any, register: Any, worker: ApiWorker, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = event_log(EventSettings(events_stream="no-such-stream", late_events_queue_url="no-such-queue"))
    client.worker = replace(worker, events=lost, settings=worker.settings.model_copy(update={"stage": "blue"}))
    register(client)
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["service"], line["stage"], line["events_lost"]) == ("api", "blue", [1])


def test_a_request_that_fails_by_our_own_fault_is_counted(
    client: Any, worker: ApiWorker, capsys: pytest.CaptureFixture[str]
) -> None:
    client.worker = replace(worker, origin=Secret(boto3.client("secretsmanager"), "nowhere", OriginSecret))
    assert client("GET", SUBSCRIPTIONS).status == 503
    assert counted(capsys) == {"requests_failed", "answered_5xx"}


def counted(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Which of the two were recorded since the last look."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    return {name for name in ("requests_failed", "answered_5xx") if any(name in line for line in lines)}


def test_a_request_begins_nothing_after_its_time(client: Any, register: Any, worker: ApiWorker) -> None:
    sid, rule_sets, past = register(client), worker.rule_sets, time.monotonic() - 1
    owner = Owner(STATEMENTS, client.key)
    many: RuleSet = {n.to_bytes(65): b"" for n in range(150)}
    assert rule_sets.replace(sid, owner, many, RequestContext(1, past)) is Unchanged.CONTENDED
    assert rule_sets.read(sid, owner, until=past) is Unchanged.CONTENDED
    rule_sets.replace(sid, owner, many, RequestContext(1))
    assert not erase(worker.connection, sid, until=past)
    assert stored(sid) == 150


def test_time_that_runs_out_between_two_batches_changes_nothing(client: Any, register: Any, worker: ApiWorker) -> None:
    sid = register(client)
    # Each look at the clock comes a second later.
    rule_sets = RuleSets(
        worker.connection, limit=500, request_cleanup=lambda *_: None, clock=itertools.count(0.0).__next__
    )
    many: RuleSet = {n.to_bytes(65): b"" for n in range(500)}
    context = RequestContext(1, until=10)
    assert rule_sets.replace(sid, Owner(STATEMENTS, client.key), many, context) is Unchanged.CONTENDED
    assert 0 < stored(sid) < 500
    assert Subscription.get(sid).generation == 0
    assert erase_dead(worker.connection, sid, int(Subscription.get(sid).revision))
    assert stored(sid) == 0


def test_a_subscription_whose_token_row_is_lost_can_be_removed(client: Any, register: Any) -> None:
    token = uuid4().hex * 2
    sid = register(client, notificationType="apns", token=token)
    Token(token_hash(Channel.APNS, token), STATEMENTS).delete()
    assert client("DELETE", SUBSCRIPTIONS, {"subscription_ids": [sid]}).status == 204


def test_a_token_row_that_is_anothers_ends_in_a_problem_that_is_not_counted_as_our_fault(
    client: Any, register: Any, worker: ApiWorker, capsys: pytest.CaptureFixture[str]
) -> None:
    token = uuid4().hex * 2
    sid = register(client, notificationType="apns", token=token)
    Token(token_hash(Channel.APNS, token), STATEMENTS, subscription_id="another", client_id=client.key).save()
    answer = client("DELETE", SUBSCRIPTIONS, {"subscription_ids": [sid]})
    assert (answer.status, answer.json["type"]) == (503, "urn:clarion:problem:contended")
    assert counted(capsys) == {"answered_5xx"}


def test_a_dead_token_says_why_and_may_register_again(client: Any, register: Any, worker: ApiWorker) -> None:
    token = uuid4().hex * 2
    sid = register(client, notificationType="apns", token=token)
    assert declare_dead(worker.connection, Subscription.get(sid), Death("Unregistered", at=1))
    [listed] = client("GET", SUBSCRIPTIONS).json
    assert (listed["status"], listed["statusReason"]) == ("invalid", "Unregistered")
    again = register(client, notificationType="apns", token=token)
    assert client("DELETE", SUBSCRIPTIONS, {"subscription_ids": [sid]}).status == 204
    taken = client("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": token})
    assert (taken.status, taken.json["subscription_id"]) == (409, again)


def test_a_pair_twice_with_two_meanings_is_refused(client: Any, register: Any) -> None:
    [rule] = rules(0, 1)
    body = {"subscription_id": register(client), "rules": [rule, rule | {"notify_type": "voip"}]}
    answer = client("PUT", RULES, body)
    assert (answer.status, answer.json["errors"][0]["field"]) == (422, "rules")


def test_a_pair_is_removed_whatever_it_is_said_to_mean(client: Any, register: Any) -> None:
    [rule] = rules(0, 1)
    sid = register(client)
    client("PUT", RULES, {"subscription_id": sid, "rules": [rule]})
    body = {"subscription_id": sid, "rules": [rule, rule | {"notify_type": "voip"}]}
    assert client("DELETE", RULES, body).json == {"removed": 1, "total_rules": 0}


def test_one_key_in_two_spellings_is_one_key(client: Any, register: Any) -> None:
    [rule] = rules(0, 1)
    twice = rule | {"senderPubkey": f"0x{rule['sender_pubkey'].upper()}"}
    body = {"subscription_id": register(client), "rules": [twice]}
    assert client("POST", RULES, body).json == {"added": 1, "total_rules": 1}
    twice["senderPubkey"] = "cd" * 32
    assert client("POST", RULES, body).status == 422


def test_a_wrong_method_is_told_which_are_right(client: Any) -> None:
    answer = client("PATCH", RULES)
    assert (answer.status, answer.headers["Allow"]) == (405, "DELETE, POST, PUT")
