import json
from typing import Any

import pytest
from botocore.parsers import ResponseParserFactory
from botocore.session import get_session
from hypothesis import given
from hypothesis import strategies as st

from clarion.answers import AnswerParserFactory

texts = st.text(max_size=9)
values: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.fixed_dictionaries({}, optional={"S": texts, "N": texts, "BOOL": st.booleans(), "NULL": st.booleans()})
    | st.sampled_from([{"B": "AAEC"}, {"BS": ["AAEC", ""]}, {"SS": ["a"]}, {"X": "of a later version"}, {"S": None}]),
    lambda inner: (
        st.dictionaries(st.just("M"), st.dictionaries(texts, inner, max_size=3), min_size=1)
        | st.dictionaries(st.just("L"), st.lists(inner, max_size=3), min_size=1)
    ),
    max_leaves=9,
)
items = st.dictionaries(texts, values, max_size=5)
REFUSED = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
SENT = {"Id": "0", "MessageId": "m", "MD5OfMessageBody": "0" * 32}
FAILED = {"Id": "1", "SenderFault": False, "Code": "c"}


def shape_of(service: str, operation: str) -> Any:
    return get_session().get_service_model(service).operation_model(operation).output_shape


def parsed(factory: ResponseParserFactory, body: bytes, status: int, shape: Any) -> Any:
    response = {"status_code": status, "headers": {"x-amzn-RequestId": "a-request"}, "body": body, "context": {}}
    return factory.create_parser("json").parse(response, shape)


def check(service: str, operation: str, body: bytes, status: int = 200) -> None:
    shape = shape_of(service, operation)
    assert parsed(AnswerParserFactory(), body, status, shape) == parsed(ResponseParserFactory(), body, status, shape)


@given(st.lists(items, max_size=3), st.none() | items)
def test_items_are_parsed_to_what_the_sdk_makes_of_them(rows: list[Any], last: Any) -> None:
    body = json.dumps({"Items": rows, "Count": len(rows), "LastEvaluatedKey": last, "OfALaterVersion": 1}).encode()
    check("dynamodb", "Query", body)


@given(items, st.booleans())
def test_a_table_s_items_are_parsed_to_what_the_sdk_makes_of_them(row: Any, known: bool) -> None:
    body = {"Responses": {"a-table": [row]}, "UnprocessedKeys": {} if known else {"a-table": {"Keys": [row]}}}
    check("dynamodb", "BatchGetItem", json.dumps(body).encode())


@pytest.mark.parametrize(
    ("service", "operation", "body"),
    [
        ("sqs", "SendMessageBatch", {"Successful": [SENT], "Failed": [FAILED]}),
        ("firehose", "PutRecordBatch", {"FailedPutCount": 1, "RequestResponses": [{"ErrorCode": "c"}, {}]}),
        ("dynamodb", "PutItem", None),
        ("dynamodb", "DescribeTable", {"Table": {"CreationDateTime": 1_800_000_000.5, "TableStatus": "ACTIVE"}}),
        ("secretsmanager", "GetSecretValue", {"SecretBinary": "AAEC", "CreatedDate": 1.0}),
    ],
)
def test_an_answer_is_parsed_to_what_the_sdk_makes_of_it(service: str, operation: str, body: object) -> None:
    check(service, operation, b"" if body is None else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (json.dumps({"__type": REFUSED, "message": "m", "Item": {"ttl": {"N": "1"}}}).encode(), 400),
        (b"<html>away</html>", 503),
        (b"", 500),
        (b"not JSON", 400),
    ],
)
def test_a_failure_is_parsed_to_what_the_sdk_makes_of_it(body: bytes, status: int) -> None:
    check("dynamodb", "PutItem", body, status)
