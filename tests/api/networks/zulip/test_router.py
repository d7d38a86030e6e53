"""What is the same for every call: who may make it, and the form of every answer."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from api.networks.zulip.errors import ZulipCode
from api.networks.zulip.router import PUBLIC_CALLS, SERVER_CALLS, answer
from api.networks.zulip.worker import ZulipWorker
from api.recent import Recent
from clarion.networks.needs import Auth
from clarion.networks.zulip.needs import LEGACY_REFUSED, NEEDS, ROOT, TRANSFER
from clarion.secrets import OriginSecret, Secret
from local.zulip_server import new_org_key
from tests.zulip import CallingServer, Clock, ZulipDevice


def basic(name: object, key: str) -> str:
    return "Basic " + b64encode(f"{name}:{key}".encode()).decode()


def routes(auth: Auth) -> set[tuple[str, str]]:
    return {(route.method, route.path.removeprefix(ROOT)) for route in NEEDS.routes if route.auth is auth}


def test_each_route_of_the_network_is_answered() -> None:
    anything_else = {("GET", "/{proxy+}"), ("POST", "/{proxy+}")}
    assert routes(Auth.SERVER) == SERVER_CALLS.keys()
    assert routes(Auth.PUBLIC) == PUBLIC_CALLS.keys() | anything_else


@pytest.mark.parametrize("route", sorted(SERVER_CALLS), ids=" ".join)
@pytest.mark.parametrize(
    "credentials",
    [
        "",
        "Basic",
        "Basic !",
        "Bearer token",
        basic("nobody", new_org_key()),
        basic(uuid4(), new_org_key()),
        "Basic " + b64encode(b"\xff\xff").decode(),
    ],
)
def test_only_known_servers_are_answered(server: CallingServer, route: tuple[str, str], credentials: str) -> None:
    reply = server.send(*route, authorization=credentials)
    assert (reply.status, reply.code) == (401, "INVALID_ZULIP_SERVER")
    assert reply.headers["WWW-Authenticate"].startswith("Basic ")


def test_a_servers_key_has_to_be_its_own(server: CallingServer, known_server: Callable[..., CallingServer]) -> None:
    assert server.send("GET", "/server/analytics/status").status == 200
    for key in (known_server().key, server.key[:-1], server.key.upper(), ""):
        reply = server.send("GET", "/server/analytics/status", authorization=basic(server.uuid, key))
        assert reply.status == 401
    assert server.key not in str(reply.json)


@pytest.mark.parametrize("name", LEGACY_REFUSED)
def test_the_unencrypted_protocol_is_refused_in_zulips_words(server: CallingServer, name: str) -> None:
    reply = server.post_json(f"/push/{name}", {})
    assert (reply.status, reply.code) == (400, "LEGACY_PUSH_UNSUPPORTED")
    assert "encrypted" in reply.json["msg"]


@pytest.mark.parametrize("name", TRANSFER)
def test_the_transfer_of_a_registration_is_refused_in_zulips_words(stranger: CallingServer, name: str) -> None:
    form = {"hostname": "chat.example.org", "access_token": "5EC4E7"}
    reply = stranger.post_form(f"/server/register/{name}", form, authorization="")
    assert (reply.status, reply.code) == (400, "REGISTRATION_TRANSFER_UNSUPPORTED")
    assert "ask who runs this service" in reply.json["msg"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("GET", "/push/e2ee/register"), ("GET", "/server/register"), ("POST", "/server/billing")],
)
def test_what_is_no_route_is_not_found_in_zulips_form(server: CallingServer, method: str, path: str) -> None:
    reply = server.send(method, path)
    assert (reply.status, reply.code, reply.json["result"]) == (404, "NOT_FOUND", "error")


def test_a_request_that_is_too_large(server: CallingServer) -> None:
    body = "x" * (server.worker.settings.body_bytes + 1)
    reply = server.send("POST", "/push/e2ee/notify", body)
    assert (reply.status, reply.code) == (413, "REQUEST_TOO_LARGE")


@pytest.mark.parametrize("body", [b"\xff", b"a=" + b"%ff", b"&" * 100, b"=", b"%"])
def test_a_form_of_anything(server: CallingServer, body: bytes) -> None:
    event = {
        "rawPath": f"{ROOT}/push/e2ee/register",
        "headers": {"authorization": basic(server.uuid, server.key)},
        "requestContext": {"http": {"method": "POST"}},
        "body": b64encode(body).decode(),
        "isBase64Encoded": True,
    }
    assert answer(event, server.worker)["statusCode"] == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
FIELDS = (
    *("realm_uuid", "token_id", "push_account_id", "encrypted_push_registration", "bouncer_public_key"),
    *("push_requests", "notifications", "realms", "realm_counts", "zulip_org_id", "zulip_org_key", "hostname"),
)


@pytest.fixture(scope="module")
def answering(zulip_worker: ZulipWorker) -> CallingServer:
    """A server that is known, for as many examples as there are."""
    made = CallingServer(zulip_worker, Clock())
    made.admit()
    return made


@given(
    st.sampled_from(sorted({*SERVER_CALLS, *PUBLIC_CALLS} - {("POST", "/server/deactivate")})),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6),
    st.dictionaries(st.sampled_from(("token_id", "device_id", "payload", "http_headers", "fcm_priority")), JSON),
)
def test_no_request_makes_it_fail(answering: CallingServer, route: tuple[str, str], content: Any, push: Any) -> None:
    """Each is answered in Zulip's form, and none as if it were the service's fault."""
    method, path = route
    given = {"realm_uuid": str(answering.realm), "push_requests": [push], **content}
    replies = [answering.post_json(path, given), answering.post_form(path, given)]
    if method == "GET":
        texts = {name: str(value) for name, value in content.items()}
        replies = [answering.send("GET", path, query=urlencode(texts, errors="replace"))]
    for reply in replies:
        assert reply.status < 500
        assert reply.json["result"] == ("success" if reply.status == 200 else "error")
        assert reply.status == 200 or reply.code in ZulipCode.__members__


def test_tables_that_do_not_answer_are_the_services_fault(server: CallingServer) -> None:
    def unreachable(_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://dynamodb.invalid")

    server.worker = replace(server.worker, servers=Recent(unreachable))
    reply = server.send("GET", "/server/analytics/status")
    assert (reply.status, reply.code) == (503, "SERVER_NOT_READY")
    assert "Retry-After" in reply.headers


def test_only_what_cloudfront_sends_is_answered_where_it_says_so(server: CallingServer) -> None:
    text = '{"secret": "' + "s" * 64 + '"}'
    client = boto3.client("secretsmanager")
    client.create_secret(Name="zulip-origin", SecretString=text)
    server.worker = replace(server.worker, origin=Secret(client, "zulip-origin", OriginSecret))
    assert server.send("GET", "/server/analytics/status").code == "NOT_FOUND"
    assert server.send("GET", "/server/analytics/status", x_clarion_origin="s" * 64).status == 200


def test_no_refusal_says_what_was_sent(server: CallingServer) -> None:
    device = ZulipDevice("5EC4E7" * 12)
    flawed = device.push()
    flawed["payload"]["encrypted_data"] = "5EC4E7" * 1_000
    for reply in (
        server.notify(flawed),
        server.notify(flawed | {"token_id": "5EC4E7"}),
        server.register(device, token_id="5EC4E7"),
        server.register(device, realm_uuid="5EC4E7"),
        server.send("GET", "/5EC4E7", authorization=basic("5EC4E7", "5EC4E7")),
    ):
        assert reply.json["result"] == "error"
        assert "5EC4E7" not in str(reply.json)
