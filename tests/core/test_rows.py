from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws
from pynamodb.models import Model

from clarion.rows import BatchRead, batch_get, item_of, query, values_of
from clarion.tables import PageLock, RateLimit, Subscription, bind

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WINDOW = {"scope": b"a pair", "part": b"\0", "admitted": b"", "version": 7, "ttl": 1_800_000_000}
LOCK = {"page": "3", "envelope_id": bytes(32), "token": "a token", "ttl": 1}


@pytest.mark.parametrize(("model", "values"), [(RateLimit, WINDOW), (PageLock, LOCK)])
def test_an_item_is_what_pynamodb_makes_of_the_same_row(model: type[Model], values: dict[str, Any]) -> None:
    assert item_of(model, values) == model(**values).serialize()


@given(st.binary(min_size=1), st.binary(), st.none() | st.binary(), st.integers(-(10**30), 10**30))
def test_the_values_of_an_item_are_those_it_was_made_of(
    scope: bytes, admitted: bytes, cooldowns: bytes | None, version: int
) -> None:
    values = {"scope": scope, "admitted": admitted, "cooldowns": cooldowns, "version": version}

    found = values_of(RateLimit, item_of(RateLimit, values))

    assert found == {name: value for name, value in values.items() if value is not None}


def test_a_column_of_another_type_is_an_error() -> None:
    with pytest.raises(KeyError):
        values_of(RateLimit, {"version": {"S": "7"}})


@mock_aws
def test_a_query_goes_on_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    dynamodb = boto3.client("dynamodb")
    keys = {"scope": "HASH", "part": "RANGE"}
    dynamodb.create_table(
        TableName="limits",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "B"} for name in keys],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],  # type: ignore[typeddict-item] # the stub wants literals
        BillingMode="PAY_PER_REQUEST",
    )
    for number in range(5):
        row = {"scope": b"a pair", "part": bytes([number]), "admitted": b"", "ttl": number}
        dynamodb.put_item(TableName="limits", Item=item_of(RateLimit, row))
    scope = {"ExpressionAttributeNames": {"#0": "scope"}, "ExpressionAttributeValues": {":0": {"B": b"a pair"}}}

    found = query(dynamodb, TableName="limits", KeyConditionExpression="#0 = :0", Limit=2, **scope)

    assert [values_of(RateLimit, item)["ttl"] for item in found] == [0, 1, 2, 3, 4]


@pytest.fixture
def throttled(monkeypatch: pytest.MonkeyPatch) -> Iterator["DynamoDBClient"]:
    """Of the subscriptions that are asked for at once it reads one, and leaves the others."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        dynamodb = cast("DynamoDBClient", bind("").client)
        Subscription.create_table(billing_mode="PAY_PER_REQUEST")
        request = {"ProjectionExpression": "#n", "ExpressionAttributeNames": {"#n": "subscription_id"}}

        def leave_all_but_one(parsed: dict[str, Any], **_: object) -> None:
            """As DynamoDB does with what is throttled."""
            rows = parsed["Responses"]["subscriptions"]
            keys = [{"subscription_id": row["subscription_id"]} for row in rows[1:]]
            parsed["Responses"]["subscriptions"] = rows[:1]
            parsed["UnprocessedKeys"] = {"subscriptions": request | {"Keys": keys}} if keys else {}

        dynamodb.meta.events.register("after-call.dynamodb.BatchGetItem", leave_all_but_one)
        yield dynamodb


def read(dynamodb: "DynamoDBClient", names: Sequence[str]) -> BatchRead:
    """What is read of so many subscriptions, and of one more that does not exist."""
    for name in names:
        row = {"subscription_id": name, "status": "active", "token": "a token", "generation": 7}
        dynamodb.put_item(TableName="subscriptions", Item=item_of(Subscription, row))
    keys = [{"subscription_id": name} for name in (*names, "of nobody")]
    return batch_get(dynamodb, Subscription, keys, ["subscription_id"])


def test_a_batch_is_read_until_nothing_of_it_is_left(throttled: "DynamoDBClient") -> None:
    found, left = read(throttled, ["a", "b", "c"])

    assert [values_of(Subscription, item) for item in found] == [{"subscription_id": name} for name in ("a", "b", "c")]
    assert left == []


def test_a_batch_that_is_throttled_for_long_is_left_in_part(throttled: "DynamoDBClient") -> None:
    names = [f"{number:02}" for number in range(20)]

    found, left = read(throttled, names)

    assert len(found) == 8
    assert {item["subscription_id"]["S"] for item in (*found, *left)} == {*names}


@pytest.mark.parametrize("number", [0, -7, 1_800_000_000_000, 10**30])
def test_a_number_is_written_as_pynamodb_writes_it(number: int) -> None:
    assert item_of(RateLimit, {"version": number}) == {"version": {"N": RateLimit.version.serialize(number)}}
