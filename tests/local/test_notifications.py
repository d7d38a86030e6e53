"""What the simulated installations send, against what a real Connect client sent and got: `connect` of the vectors."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from local.notifications import SERVICE, CallRefused, HttpNotificationsClient, decode_response, encode_request

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "xmtp.json").read_text())["connect"]
IN_JSON = {one["path"]: one for one in RECORDED["recorded"] if one["proto"].startswith("connect+json")}
IN_PROTOBUF = [one for one in RECORDED["recorded"] if one["proto"].startswith("connect+proto")]
FRAMED = [one for one in RECORDED["recorded"] if one["proto"].startswith("grpc-web")]
_FRAME = 5
"""Bytes before a message of gRPC."""


def method_of(recorded: dict[str, Any]) -> str:
    name: str = recorded["path"].rpartition("/")[2]
    return name


@pytest.mark.parametrize("recorded", IN_PROTOBUF, ids=method_of)
async def test_a_request_and_its_response_are_those_of_the_real_client(recorded: dict[str, Any]) -> None:
    request = bytes.fromhex(recorded["body_hex"])
    seen: list[httpx.Request] = []

    def answer(given: httpx.Request) -> httpx.Response:
        seen.append(given)
        return httpx.Response(200, content=bytes.fromhex(recorded["response_body_hex"]))

    asked = {"installationId": "install1"}
    if b"/xmtp/" in request:
        topics = ["/xmtp/mls/1/g-00ff/proto", "/xmtp/mls/1/w-aabb/proto"]
        asked |= {"topics": [topic for topic in topics if topic.encode() in request]}  # type: ignore[dict-item] # of JSON
    async with httpx.AsyncClient(base_url="https://api", transport=httpx.MockTransport(answer)) as http:
        response = await HttpNotificationsClient(http, binary=True).call(method_of(recorded), asked)

    [sent] = seen
    assert (sent.method, sent.url.path) == (recorded["method"], recorded["path"])
    assert sent.content == request
    assert {name: sent.headers[name] for name in ("content-type", "connect-protocol-version")} == {
        name: recorded["headers"][name] for name in ("content-type", "connect-protocol-version")
    }
    expected = {"installationId": "install1", "validUntil": "1700000000000"}
    assert response == (expected if method_of(recorded) == "RegisterInstallation" else {})


def test_keys_and_topics_are_encoded_as_the_real_client_does() -> None:
    [recorded] = [one for one in FRAMED if method_of(one) == "SubscribeWithMetadata"]
    asked = json.loads(IN_JSON[recorded["path"]]["body_text"])

    assert encode_request("SubscribeWithMetadata", asked) == bytes.fromhex(recorded["body_hex"])[_FRAME:]


def test_a_response_without_content_is_empty() -> None:
    assert decode_response("Subscribe", b"") == {}


@pytest.mark.parametrize("recorded", IN_JSON.values(), ids=method_of)
async def test_json_is_sent_and_read_as_it_is(recorded: dict[str, Any]) -> None:
    async def answer(given: httpx.Request) -> httpx.Response:
        assert json.loads(await given.aread()) == json.loads(recorded["body_text"])
        assert given.headers["content-type"] == recorded["headers"]["content-type"]
        return httpx.Response(200, text=recorded["response_body"])

    async with httpx.AsyncClient(base_url="https://api", transport=httpx.MockTransport(answer)) as http:
        client = HttpNotificationsClient(http)
        response = await client.call(method_of(recorded), json.loads(recorded["body_text"]))

    assert response == json.loads(recorded["response_body"])


@pytest.mark.parametrize("error", RECORDED["errors"], ids=lambda error: error["body"]["code"])
@pytest.mark.parametrize("binary", [False, True])
async def test_a_refusal_carries_connects_code(error: dict[str, Any], binary: bool) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(error["http_status"], json=error["body"]))
    async with httpx.AsyncClient(base_url="https://api", transport=transport) as http:
        with pytest.raises(CallRefused, match=error["body"]["message"]) as refusal:
            await HttpNotificationsClient(http, binary=binary).call("Subscribe", {})
    assert refusal.value.code == error["body"]["code"]


async def test_a_refusal_in_front_of_the_service_is_one_too() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(403, json={"message": "Forbidden"}))
    async with httpx.AsyncClient(base_url="https://api", transport=transport) as http:
        with pytest.raises(CallRefused, match="403"):
            await HttpNotificationsClient(http).call("Subscribe", {})


def test_the_service_has_the_name_that_clients_call() -> None:
    assert {one["path"].split("/")[1] for one in RECORDED["recorded"]} == {SERVICE}
