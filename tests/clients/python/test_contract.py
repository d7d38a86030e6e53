"""The client for Python and docs/openapi.json say the same: operations, bodies, answers, vocabulary."""

import json
import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypeAliasType, Union, is_typeddict

import httpx
import jsonschema_rs
import pytest

from api.problems import ProblemKind
from clarion_client import AsyncClient, Client, SignIn, models, operations, problems, rule
from clarion_client.operations import Operation

DESCRIPTION = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text())
SCHEMAS = DESCRIPTION["components"]["schemas"]
OPERATIONS = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, methods in DESCRIPTION["paths"].items()
    for method, operation in methods.items()
    # Wallets have clients of their own.
    if operation["tags"] != ["walletconnect"]
}
OF_SIGN_IN = {"askForChallenge", "signIn"}
NAME = "8f14e45f-ceea-467f-9f8a-0f5b6c1d2e3f"
RULES = [rule(b"a" * 32, b"b" * 32), rule(b"c" * 32, b"d" * 32, "voip")]
CALLS: Mapping[str, Operation[Any]] = {
    "registerSubscription": operations.register_subscription("fcm", "f" * 40, app="first", wake_every_minutes=20),
    "listSubscriptions": operations.list_subscriptions(),
    "getSubscription": operations.get_subscription(NAME),
    "changeSubscription": operations.change_subscription(NAME, environment="sandbox", device_key=None),
    "removeSubscriptions": operations.remove_subscriptions(NAME, NAME),
    "replaceToken": operations.replace_token(NAME, "a1" * 32),
    "proveToken": operations.prove_token(NAME, "A" * 43),
    "requestCode": operations.request_code(NAME),
    "replaceRules": operations.replace_rules(NAME, RULES),
    "addRules": operations.add_rules(NAME, RULES),
    "removeRules": operations.remove_rules(NAME, RULES),
    "listDeliveries": operations.list_deliveries(NAME),
    "pushDirectly": operations.push_directly("a1" * 32, "0" * 32, b"hello", platform="ios", bundlerId="a.b", voip=True),
}

ANSWERS = {
    name: model
    for name, model in vars(models).items()
    if is_typeddict(model) and name not in {"SubscriptionChange", "DirectPushOptions"}
}
VOCABULARY = {name: kind for name, kind in vars(models).items() if isinstance(kind, TypeAliasType)}
PLAIN = {str: "string", int: "integer", bool: "boolean", type(None): "null"}


def snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def properties(schema: Mapping[str, Any]) -> set[str]:
    """With the other spellings that the API takes."""
    return {name for variant in schema.get("anyOf", [schema]) for name in variant["properties"]}


def assert_described(method: str, path: str, body: object, name: str) -> None:
    expected_method, template, operation = OPERATIONS[name]
    assert (method, path) == (expected_method, template.replace("{subscription_id}", NAME))
    assert (body is None) == ("requestBody" not in operation)
    if body is not None:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        content = json.loads(json.dumps(body))
        jsonschema_rs.validate(schema | {"components": DESCRIPTION["components"]}, content)
        assert content.keys() <= properties(SCHEMAS[schema["$ref"].rpartition("/")[2]])


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_each_operation_is_a_method_of_each_client(client: type) -> None:
    methods = {snake_case(name) for name in OPERATIONS.keys() - OF_SIGN_IN}
    public = {name for name in vars(client) if not name.startswith("_")}
    assert public - {"http", "patience", "run"} == methods


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in OF_SIGN_IN])
def test_what_an_operation_sends_is_described(name: str) -> None:
    request = next(CALLS[name])
    assert_described(request.method, request.path, request.body, name)


def test_what_signing_in_sends_is_described() -> None:
    flow = SignIn(b"k" * 32, "push.example.org", lambda _: b"s" * 64).auth_flow(httpx.Request("GET", "https://api/"))
    asking = next(flow)
    signing = flow.send(httpx.Response(201, json={"challenge": "c"}))
    for request, name in ((asking, "askForChallenge"), (signing, "signIn")):
        assert_described(request.method, request.url.path, json.loads(request.content), name)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in OF_SIGN_IN])
def test_an_operation_returns_what_is_described(name: str) -> None:
    returned = typing.get_type_hints(getattr(operations, snake_case(name)))["return"]
    (success,) = [answer for status, answer in OPERATIONS[name][2]["responses"].items() if status.startswith("2")]
    result = returned.__args__[0]
    assert (result is None) == (not success.get("content"))
    if result is not None:
        assert_same(result, success["content"]["application/json"]["schema"])


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answers_members_are_those_described(name: str) -> None:
    schema = SCHEMAS[name]
    members = typing.get_type_hints(ANSWERS[name], include_extras=True)
    assert members.keys() == schema["properties"].keys()
    assert {member for member, kind in members.items() if typing.get_origin(kind) is not NotRequired} == set(
        schema["required"]
    )
    for member, kind in members.items():
        assert_same(kind.__args__[0] if typing.get_origin(kind) is NotRequired else kind, schema["properties"][member])


def test_a_changes_members_are_those_described() -> None:
    members = typing.get_type_hints(models.SubscriptionChange)
    assert members.keys() == SCHEMAS["SubscriptionChange"]["properties"].keys()
    for member, kind in members.items():
        assert_same(kind, SCHEMAS["SubscriptionChange"]["properties"][member])
    assert members.keys() | {"notificationType", "token"} == properties(SCHEMAS["NewSubscription"]) - {"platform"}


def test_the_options_of_a_direct_push_are_those_described() -> None:
    members = typing.get_type_hints(models.DirectPushOptions)
    described = SCHEMAS["Notification"]["properties"]
    assert members.keys() == described.keys() - SCHEMAS["Notification"]["required"]
    for member, kind in members.items():
        assert_same(kind | None, described[member])


@pytest.mark.parametrize("name", VOCABULARY)
def test_the_vocabulary_is_that_described(name: str) -> None:
    assert typing.get_args(VOCABULARY[name].__value__) == tuple(SCHEMAS[name]["enum"])


def test_the_kinds_of_problem_are_those_of_the_api() -> None:
    assert set(typing.get_args(problems.ProblemKind.__value__)) == {kind.slug for kind in ProblemKind}


def assert_same(kind: Any, schema: Mapping[str, Any]) -> None:
    for one, expected in zip(alternatives(kind), schema.get("anyOf", [schema]), strict=True):
        if "$ref" in expected:
            assert one.__name__ == expected["$ref"].rpartition("/")[2]
        elif typing.get_origin(one) is list:
            assert_same(one.__args__[0], expected["items"])
        elif typing.get_origin(one) is Literal:
            assert set(one.__args__) == set(expected["enum"])
        elif one is not object:
            assert PLAIN[one] == expected["type"]


def alternatives(kind: Any) -> Iterator[Any]:
    if typing.get_origin(kind) in (Union, type(int | str)):
        yield from kind.__args__
    else:
        yield kind
