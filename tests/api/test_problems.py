from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

RULES = "/v1/subscriptions/rules"
RULE_METHODS = ("PUT", "POST", "DELETE")
KEY = "ab" * 32


def assert_problem(answer: Any, status: int, name: str) -> None:
    assert answer.status == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json["type"] == f"urn:clarion:problem:{name}"
    assert answer.json["status"] == status


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/subscriptions"),
        ("DELETE", "/v1/subscriptions"),
        ("PUT", RULES),
        ("POST", RULES),
        ("DELETE", RULES),
    ],
)
@pytest.mark.parametrize("raw", ["{", "[]", "null", '"text"', "[" * 100_000])
def test_a_body_that_is_not_a_json_object_is_malformed(client: Any, method: str, path: str, raw: str) -> None:
    assert_problem(client(method, path, raw=raw), 400, "malformed")


def test_a_missing_body_is_a_missing_field(client: Any) -> None:
    answer = client("PUT", RULES)
    assert_problem(answer, 422, "invalid")
    assert answer.json["errors"] == [{"field": "body", "rule": "Field required"}]


def test_an_invalid_body_names_each_field_and_the_rule_it_breaks(client: Any) -> None:
    rules = [{"sender_pubkey": KEY, "topic": KEY}, {"sender_pubkey": "xyz", "notify_type": "loud"}]
    answer = client("PUT", RULES, {"subscription_id": "no", "rules": rules})
    assert_problem(answer, 422, "invalid")
    errors = {error["field"]: error["rule"] for error in answer.json["errors"]}
    assert set(errors) == {"subscription_id", "rules[1].sender_pubkey", "rules[1].topic", "rules[1].notify_type"}
    assert errors["rules[1].sender_pubkey"] == "must be 32 bytes as 64 hex digits, with or without 0x"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"token": "ab" * 32}, "notificationType"),
        ({"notificationType": "sms", "token": "ab" * 32}, "notificationType"),
        ({"notificationType": "apns"}, "token"),
        ({"notificationType": "apns", "token": "ab" * 31}, "token"),
        ({"notificationType": "voip", "token": "not hex " * 8}, "token"),
        ({"platform": "fcm", "token": "short"}, "token"),
        ({"platform": "fcm", "notificationType": "apns", "token": "ab" * 32}, "body"),
    ],
)
def test_a_registration_that_breaks_a_rule_says_where(client: Any, body: dict[str, str], field: str) -> None:
    answer = client("POST", "/v1/subscriptions", body)
    assert_problem(answer, 422, "invalid")
    assert [error["field"] for error in answer.json["errors"]] == [field]


IPHONE = {"notificationType": "apns", "token": "ab" * 32}
SUBSCRIPTION = "/v1/subscriptions/8f14e45f-ceea-467f-9f8a-0f5b6c1d2e3f"
UNKNOWN = "is no member of this request"


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/subscriptions", IPHONE | {"deviceKeys": "A" * 43}, "deviceKeys"),
        ("PATCH", SUBSCRIPTION, {"wake-every-minutes": 30}, "wake-every-minutes"),
        ("PUT", f"{SUBSCRIPTION}/token", {"token": "ab" * 32, "app": "first"}, "app"),
        ("POST", f"{SUBSCRIPTION}/proof", {"code": "A" * 43, "token": "ab" * 32}, "token"),
        ("DELETE", "/v1/subscriptions", {"subscription_ids": [KEY[:32]], "rules": []}, "rules"),
        *((method, RULES, {"subscription_id": KEY[:32], "rules": [], "token": ""}, "token") for method in RULE_METHODS),
        ("POST", "/v1/auth/challenges", {"client_id": KEY, "domain": "push.example.org"}, "domain"),
        ("POST", "/v1/auth/tokens", {"client_id": KEY, "challenge": "c", "signature": KEY * 2, "seed": ""}, "seed"),
    ],
)
def test_a_member_that_the_api_does_not_know_is_refused(
    client: Any, method: str, path: str, body: dict[str, Any], field: str
) -> None:
    answer = client(method, path, body)
    assert_problem(answer, 422, "invalid")
    assert answer.json["errors"] == [{"field": field, "rule": UNKNOWN}]


def test_a_rules_unknown_member_is_named_with_its_place(client: Any) -> None:
    rules = [{"sender_pubkey": KEY, "topic": KEY}, {"sender_pubkey": KEY, "topic": KEY, "notificationType": "voip"}]
    answer = client("PUT", RULES, {"subscription_id": str(uuid4()), "rules": rules})
    assert answer.json["errors"] == [{"field": "rules[1].notificationType", "rule": UNKNOWN}]


def test_of_many_unknown_members_the_first_is_named(client: Any) -> None:
    answer = client("POST", "/v1/subscriptions", IPHONE | {f"member{number}": number for number in range(100_000)})
    assert answer.json["errors"] == [{"field": "member0", "rule": UNKNOWN}]


def test_a_token_that_stands_in_a_members_place_is_not_repeated(client: Any) -> None:
    answer = client("POST", "/v1/subscriptions", IPHONE | {"0a1b" * 16: "apns"})
    assert answer.json["errors"] == [{"field": "…", "rule": UNKNOWN}]


def test_a_refusal_never_repeats_the_token(client: Any) -> None:
    assert "not-hex" not in client("POST", "/v1/subscriptions", {"platform": "apns", "token": "not-hex" * 10}).text


@pytest.mark.parametrize("method", RULE_METHODS)
def test_rules_of_somebody_elses_subscription_are_not_found(
    new_client: Callable[[], Any], register: Callable[..., str], method: str
) -> None:
    theirs = register(new_client())
    body = {"subscription_id": theirs, "rules": [{"sender_pubkey": KEY, "topic": KEY}]}
    answer = new_client()(method, RULES, body)
    assert_problem(answer, 404, "no-subscription")
    unknown = new_client()(method, RULES, body | {"subscription_id": str(uuid4())})
    assert unknown.text == answer.text


def test_removing_somebody_elses_subscription_removes_nothing(
    new_client: Callable[[], Any], register: Callable[..., str]
) -> None:
    me, other = new_client(), new_client()
    mine, theirs = register(me), register(other)
    assert_problem(me("DELETE", "/v1/subscriptions", {"subscription_ids": [mine, theirs]}), 404, "no-subscription")
    assert [row["subscription_id"] for row in me("GET", "/v1/subscriptions").json] == [mine]
    assert [row["subscription_id"] for row in other("GET", "/v1/subscriptions").json] == [theirs]


def test_a_client_has_only_so_many_subscriptions(client: Any, register: Callable[..., str]) -> None:
    for _ in range(20):
        register(client)
    answer = client("POST", "/v1/subscriptions", {"notificationType": "apns", "token": uuid4().hex * 2})
    assert_problem(answer, 409, "too-many-subscriptions")


def test_an_unknown_address_is_a_problem_too(client: Any) -> None:
    assert_problem(client("GET", "/v1/nothing"), 404, "no-route")


def test_a_body_of_another_kind_is_unsupported(client: Any) -> None:
    answer = client("POST", "/v1/subscriptions", raw="token=x", **{"content-type": "text/plain"})
    assert_problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize("path", ["/v1/auth/tokens", "/v1/subscriptions"])
@pytest.mark.parametrize("media_type", ["multipart/form-data", "text/plain", "application/x-www-form-urlencoded"])
def test_an_empty_body_is_missing_whatever_its_kind(client: Any, path: str, media_type: str) -> None:
    refused = client("POST", path, raw="", **{"content-type": media_type})
    assert_problem(refused, 422, "invalid")
    assert refused.json["errors"] == [{"field": "body", "rule": "Field required"}]


@pytest.mark.parametrize("media_type", ["Application/JSON", "application/json ; charset=utf-8"])
def test_a_media_type_may_be_spelt_in_any_case(client: Any, media_type: str) -> None:
    body = {"notificationType": "apns", "token": uuid4().hex * 2}
    assert client("POST", "/v1/subscriptions", body, **{"content-type": media_type}).status == 201


@pytest.mark.parametrize("character", [" ", "é"])
def test_a_body_over_the_limit_is_too_large(client: Any, character: str) -> None:
    characters = 4_000_000 // len(character.encode())
    assert_problem(client("POST", "/v1/subscriptions", raw=character * (characters + 1)), 413, "too-large")
    assert_problem(client("POST", "/v1/subscriptions", raw=character * characters), 400, "malformed")


def test_a_number_of_too_many_digits_is_malformed_in_our_words(client: Any) -> None:
    answer = client("POST", "/v1/subscriptions", raw='{"token": ' + "9" * 5000 + "}")
    assert_problem(answer, 400, "malformed")
    assert "int" not in answer.json["detail"]


def test_without_an_identity_nothing_is_looked_at(client: Any) -> None:
    client.headers = {}
    answer = client("POST", "/v1/nothing", raw="{")
    assert_problem(answer, 401, "unauthenticated")
    assert answer.headers["WWW-Authenticate"] == "Bearer"
