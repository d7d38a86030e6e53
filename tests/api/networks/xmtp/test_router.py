"""What is refused before a call is looked at, what can go wrong beside it, and that nothing secret is shown."""

import gzip
import json
import logging
import time
import tracemalloc
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import boto3
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from api import requests
from api.networks.xmtp.notifications_pb2 import SubscribeRequest
from api.networks.xmtp.protocols import COMPRESSED, MEDIA_TYPES, TRAILERS, frame
from api.networks.xmtp.router import answer
from api.networks.xmtp.service import RPCS, XmtpCall
from api.requests import ORIGIN_HEADER, REQUEST_SECONDS, UNAVAILABLE, deadline
from api.worker import ApiWorker
from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS
from clarion.networks.xmtp.installations import Installation
from clarion.secrets import OriginSecret, Secret, SecretError
from local.gateway import Gateway
from tests.api.conflicts import conflicts

SERVICE = "/notifications.v1.Notifications"
TOPIC = "/xmtp/mls/1/g-00ff/proto"
MOST_MEMORY = 20_000_000
"""Bytes, for one request of at most 4 MB: a few copies of it, but not an object for each of a million parts."""


@contextmanager
def within_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("media_type", ["text/plain", "application/grpc", "application/connect+proto", ""])
def test_another_media_type_is_415_and_says_which_are_taken(phone: Any, media_type: str) -> None:
    reply = phone("Subscribe", content_type=media_type)
    assert (reply.status, reply.body) == (415, b"")
    assert "application/proto" in reply.headers["Accept-Post"].split(", ")


def test_an_unknown_method_is_unimplemented(phone: Any) -> None:
    reply = phone("SubscribeAll")
    assert (reply.status, reply.code) == (501, "unimplemented")
    web = phone.send(f"{SERVICE}/", frame(0, b""), content_type="application/grpc-web")
    assert (web.status, web.body[5:]) == (200, b"grpc-status: 12\r\ngrpc-message: no such method\r\n")


@pytest.mark.parametrize("method", [*RPCS, "Elsewhere"])
@pytest.mark.parametrize("token", [None, "no.token.atall"])
def test_without_a_client_nothing_is_answered(phone: Any, method: str, token: str | None) -> None:
    nobody = replace(phone, token=token)
    reply = nobody(method, {"topics": [TOPIC]})
    assert (reply.status, reply.code) == (401, "unauthenticated")
    assert reply.headers["WWW-Authenticate"] == "Bearer"
    web = nobody.send(f"{SERVICE}/{method}", b"garbage", content_type="application/grpc-web+proto")
    assert (web.status, web.body[5:21]) == (200, b"grpc-status: 16\r")


def test_around_cloudfront_nothing_is_there(registered: Any, worker: ApiWorker) -> None:
    class Given(Secret[OriginSecret]):
        def __init__(self) -> None: ...

        def get(self) -> OriginSecret:
            return OriginSecret(secret=SecretStr("x" * 32))

    registered.worker = replace(registered.worker, origin=Given())
    assert registered("Subscribe", {"topics": [TOPIC]}).code == "unimplemented"
    assert registered("Subscribe", {"topics": [TOPIC]}, **{ORIGIN_HEADER: "x" * 32}).status == 200


def test_all_protocols_do_the_same(registered: Any) -> None:
    message = SubscribeRequest(installation_id="install1", topics=[TOPIC])
    for media_type in MEDIA_TYPES:
        as_json = media_type.endswith("json")
        raw = json.dumps({"installationId": "install1", "topics": [TOPIC]}).encode() if as_json else b""
        raw = raw or message.SerializeToString()
        body = frame(0, raw) if "grpc" in media_type else raw
        body = b64encode(body) if "-text" in media_type else body
        reply = registered.send(f"{SERVICE}/Subscribe", body, content_type=media_type)
        assert (reply.status, reply.headers["Content-Type"]) == (200, media_type)


def test_a_compressed_call_is_answered_and_a_bomb_is_not(registered: Any) -> None:
    raw = json.dumps({"installationId": "install1", "topics": [TOPIC]}).encode()
    headers = {"content_type": "application/json", "content_encoding": "gzip"}
    assert registered.send(f"{SERVICE}/Subscribe", gzip.compress(raw), **headers).status == 200
    bomb = gzip.compress(bytes(200_000_000), 9)
    with within_memory():
        reply = registered.send(f"{SERVICE}/Subscribe", bomb, **headers)
    assert (reply.status, reply.code) == (429, "resource_exhausted")


@pytest.fixture
def calls(registered: Any) -> Iterator[Callable[..., httpx.Response]]:
    """Subscribes by HTTP through the gateway, with an answer that may be compressed."""

    def call(body: bytes, media_type: str, **headers: str) -> httpx.Response:
        sent = {"content-type": media_type, "authorization": f"Bearer {registered.token}", "accept-encoding": "gzip"}
        return httpx.post(f"{gateway.url}{SERVICE}/Subscribe", content=body, headers=sent | headers, timeout=60)

    with Gateway(registered.authorizer, lambda event: dict(answer(event, registered.worker))) as gateway:
        yield call


@pytest.mark.parametrize("encoding", ["gzip", "br"])
def test_compressed_json_is_refused_for_the_gateway_takes_it_for_text(
    calls: Callable[..., httpx.Response], encoding: str
) -> None:
    raw = gzip.compress(b'{"installationId":"install1"}')
    reply = calls(raw, "application/json", **{"content-encoding": encoding})
    assert (reply.status_code, reply.json()["code"]) == (501, "unimplemented")
    assert reply.json()["message"].endswith("identity is supported")


@pytest.mark.parametrize("encoding", ["", "identity"])
def test_json_that_is_not_compressed_passes_the_gateway(calls: Callable[..., httpx.Response], encoding: str) -> None:
    reply = calls(b'{"installationId":"install1"}', "application/json", **{"content-encoding": encoding})
    assert (reply.status_code, reply.json()) == (200, {})


def test_compressed_protobuf_passes_the_gateway_and_its_answer_is_not_compressed(
    calls: Callable[..., httpx.Response],
) -> None:
    raw = SubscribeRequest(installation_id="install1", topics=[TOPIC]).SerializeToString()
    connect = calls(gzip.compress(raw), "application/proto", **{"content-encoding": "gzip"})
    assert (connect.status_code, connect.content) == (200, b"")
    framed = frame(COMPRESSED, gzip.compress(raw))
    web = calls(framed, "application/grpc-web+proto", **{"grpc-encoding": "gzip"})
    assert (web.status_code, web.content) == (200, frame(0, b"") + frame(TRAILERS, b"grpc-status: 0\r\n"))
    assert not {"content-encoding", "grpc-encoding"} & {*connect.headers, *web.headers}


def test_a_body_has_only_so_many_bytes(registered: Any) -> None:
    reply = registered.send(f"{SERVICE}/Subscribe", bytes(4_000_001), content_type="application/proto")
    assert (reply.status, reply.code) == (429, "resource_exhausted")


@pytest.mark.parametrize("repeated", [b"\x12\x00", b"\x12\x02\x12\x00"], ids=["empty parts", "parts of empty parts"])
@pytest.mark.parametrize("method", RPCS)
def test_a_message_of_a_million_parts_is_refused_before_anything_is_made_of_them(
    registered: Any, method: str, repeated: bytes
) -> None:
    raw = b"\x0a\x08install1" + repeated * (3_900_000 // len(repeated))
    with within_memory():
        reply = registered.send(f"{SERVICE}/{method}", raw, content_type="application/proto")
    assert reply.status in {200, 400}


def test_one_subscription_with_a_million_keys_is_refused_before_anything_is_made_of_them(registered: Any) -> None:
    keys = b"\x12\x00" * 1_900_000
    inner = b"\x0a\x18" + TOPIC.encode() + keys
    size, length = len(inner), b""
    while size:
        length += bytes([(size & 0x7F) | (0x80 if size > 0x7F else 0)])
        size >>= 7
    raw = b"\x0a\x08install1\x12" + length + inner
    with within_memory():
        reply = registered.send(f"{SERVICE}/SubscribeWithMetadata", raw, content_type="application/proto")
    assert (reply.status, reply.code) == (400, "invalid_argument")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    st.sampled_from([*RPCS, ""]),
    st.sampled_from(MEDIA_TYPES),
    st.binary(max_size=60) | st.sampled_from([b"{}", b"[]", b'{"topics":[""]}', frame(0, b"\x12\x00"), b"AAAAAAA="]),
    st.sampled_from([{}, {"content_encoding": "gzip"}, {"connect_timeout_ms": "x"}, {"grpc_timeout": "0n"}]),
)
def test_whatever_comes_is_answered(
    phone: Any, method: str, media_type: str, body: bytes, headers: dict[str, str]
) -> None:
    reply = phone.send(f"{SERVICE}/{method}", body, content_type=media_type, **headers)
    if "grpc" in media_type:
        assert reply.status == 200
    else:
        assert reply.status in {200, 400, 404, 501}
        assert reply.status == 200 or reply.json.keys() == {"code", "message"}


def test_a_body_that_is_text_is_read_as_well(registered: Any) -> None:
    """As API Gateway sends JSON."""
    event = {
        "rawPath": f"{SERVICE}/Subscribe",
        "headers": {"content-type": "application/json"},
        "requestContext": {"authorizer": {"lambda": {"client_id": registered.client_id.hex()}}},
        "body": json.dumps({"installationId": "install1", "topics": [TOPIC]}),
        "isBase64Encoded": False,
    }
    assert answer(event, registered.worker)["statusCode"] == 200
    assert answer(event | {"body": None}, registered.worker)["statusCode"] == 400


@pytest.mark.parametrize(
    ("media_type", "timeout"),
    [("application/json", {"connect_timeout_ms": "0"}), ("application/grpc-web", {"grpc_timeout": "0S"})],
)
@pytest.mark.parametrize("method", ["Subscribe", "RegisterInstallation"])
def test_a_call_without_time_does_nothing(
    registered: Any, method: str, media_type: str, timeout: dict[str, str], emitted: Any
) -> None:
    emitted.events.clear()
    raw = RPCS[method].request.FromString(b"\x0a\x08install1")
    if method == "RegisterInstallation":
        raw.delivery_mechanism.apns_device_token = uuid4().hex * 2  # type: ignore[attr-defined]
    web = "grpc" in media_type
    path = f"{SERVICE}/{method}"
    if web:
        body = registered.send(path, frame(0, raw.SerializeToString()), content_type=media_type, **timeout).body
        assert body[5:20] == b"grpc-status: 4\r"
    else:
        mechanism = {"apnsDeviceToken": uuid4().hex * 2}
        reply = registered(method, {"deliveryMechanism": mechanism}, **timeout)
        assert (reply.status, reply.code) == (504, "deadline_exceeded")
    assert emitted.events == []


@pytest.mark.parametrize(("waits", "seconds"), [(None, REQUEST_SECONDS), (30, REQUEST_SECONDS), (5, 5), (0, 0)])
def test_a_call_has_as_long_as_its_client_waits_within_the_functions_time(
    waits: float | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "REQUEST_SECONDS", REQUEST_SECONDS)
    before = time.monotonic()
    until = deadline(waits)
    assert before + seconds <= until <= time.monotonic() + seconds


@pytest.fixture
def broken(registered: Any) -> Iterator[Any]:
    """A registered phone whose worker's tables are gone for a while."""
    client: Any = boto3.client("dynamodb")
    description = client.describe_table(TableName="clarion-test-subscriptions")["Table"]
    rows = client.scan(TableName="clarion-test-subscriptions")["Items"]
    client.delete_table(TableName="clarion-test-subscriptions")
    yield registered
    client.create_table(
        TableName="clarion-test-subscriptions",
        KeySchema=description["KeySchema"],
        AttributeDefinitions=description["AttributeDefinitions"],
        BillingMode="PAY_PER_REQUEST",
        GlobalSecondaryIndexes=[
            {name: index[name] for name in ("IndexName", "KeySchema", "Projection")}
            for index in description["GlobalSecondaryIndexes"]
        ],
    )
    for row in rows:
        client.put_item(TableName="clarion-test-subscriptions", Item=row)


@pytest.mark.parametrize("method", ["RegisterInstallation", "DeleteInstallation", "Subscribe", "Unsubscribe"])
def test_trouble_with_aws_is_unavailable(broken: Any, method: str, caplog: pytest.LogCaptureFixture) -> None:
    token = uuid4().hex * 2
    reply = broken(method, {"deliveryMechanism": {"apnsDeviceToken": token}, "topics": [TOPIC]})
    assert (reply.status, reply.code) == (503, "unavailable")
    assert reply.headers["Retry-After"] == "2"
    assert "AWS gives no usable answer" in caplog.text
    assert {vars(record)["error"].partition(" ")[0] for record in caplog.records} == {"ResourceNotFoundException"}
    assert token not in caplog.text + reply.body.decode()


def metrics(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What was recorded since the last look."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    assert all(line["service"] == "xmtp" for line in lines)
    return {name: line[name] for line in lines for name in ("requests_failed", "answered_5xx") if name in line}


def test_a_request_that_fails_by_our_own_fault_is_counted_in_every_protocol(
    broken: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert broken("Subscribe", {"topics": [TOPIC]}).status == 503
    assert metrics(capsys) == {"requests_failed": [1], "answered_5xx": [1]}
    raw = SubscribeRequest(installation_id="install1", topics=[TOPIC]).SerializeToString()
    assert broken.send(f"{SERVICE}/Subscribe", frame(0, raw), content_type="application/grpc-web").status == 200
    assert metrics(capsys) == {"requests_failed": [1]}


def test_keys_that_meet_a_transaction_may_be_sent_again_and_are_no_failure(
    registered: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    key = {"thirtyDayPeriodsSinceEpoch": now_ms() // 2_592_000_000, "key": b64encode(bytes(42)).decode()}
    with conflicts(Installation) as refused:
        reply = registered("SubscribeWithMetadata", {"subscriptions": [{"topic": TOPIC, "hmacKeys": [key]}]})
    assert refused == ["UpdateItem"]
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (503, "unavailable", "1")
    assert metrics(capsys) == {"answered_5xx": [1]}


def test_what_the_client_has_brought_about_is_no_failure_whatever_its_status(
    registered: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert registered("SubscribeAll").status == 501
    assert metrics(capsys) == {"answered_5xx": [1]}
    assert registered("Subscribe", {"topics": [TOPIC]}, connect_timeout_ms="0").status == 504
    assert metrics(capsys) == {"answered_5xx": [1]}
    assert registered("Subscribe", {"topics": [TOPIC]}).status == 200
    assert registered("Subscribe", {"topics": "none"}).status == 400
    assert metrics(capsys) == {}


def test_all_that_aws_raises_is_unavailable() -> None:
    assert {*UNAVAILABLE} == {*AWS_ERRORS, SecretError}


def test_nothing_secret_is_shown(registered: Any, caplog: pytest.LogCaptureFixture, capsys: Any) -> None:
    caplog.set_level(logging.DEBUG, logger="api")
    secret, token = b64encode(b"\x5a" * 42).decode(), "secret-token-of-mine" * 3
    keys = [{"thirtyDayPeriodsSinceEpoch": now_ms() // 2_592_000_000, "key": secret}]
    subscriptions = [{"topic": TOPIC, "hmacKeys": keys}]
    replies = [
        registered("SubscribeWithMetadata", {"subscriptions": subscriptions}),
        registered("SubscribeWithMetadata", {"subscriptions": subscriptions, "topics": {"a": secret}}),
        registered("SubscribeWithMetadata", {"subscriptions": [{"topic": TOPIC, "hmacKeys": secret}]}),
        registered("SubscribeWithMetadata", {"subscriptions": [{"hmacKeys": [{"key": secret[:53]}]}]}),
        registered("RegisterInstallation", {"deliveryMechanism": {"firebaseDeviceToken": token + "§"}}),
        registered("RegisterInstallation", {"deliveryMechanism": {"customToken": token}}),
        registered("RegisterInstallation", {"deliveryMechanism": {"apnsDeviceToken": token}}),
    ]
    assert [reply.status for reply in replies] == [200, 200, 400, 400, 400, 200, 400]
    shown = "".join(reply.body.decode() + str(reply.headers) for reply in replies) + caplog.text
    shown += "".join(capsys.readouterr())
    assert "secret-token" not in shown
    assert secret not in shown
    call = XmtpCall(registered.worker, registered.client_id, 0.0, {"authorization": f"Bearer {registered.token}"})
    assert registered.token not in repr(call)
