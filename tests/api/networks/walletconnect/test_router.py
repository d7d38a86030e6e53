"""What is the same for every call: who may make it, and the form of every answer."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st

from api.networks.walletconnect.router import PROJECT_CALLS, PUBLIC_CALLS
from api.networks.walletconnect.worker import DappApiWorker
from api.recent import Recent
from clarion import base64url
from clarion.networks.needs import Auth
from clarion.networks.walletconnect.needs import NEEDS
from clarion.networks.walletconnect.projects import Project, ProjectState, find_project, secret_hash
from clarion.secrets import OriginSecret, Secret
from tests.api.networks.walletconnect.conftest import DOMAIN, SERVER_KEYS
from tests.dapps import Dapp, new_account
from tests.zulip import Clock

ROUTES = sorted(route.split() for route in PROJECT_CALLS)


@pytest.mark.parametrize(("auth", "calls"), [(Auth.SERVER, PROJECT_CALLS), (Auth.PUBLIC, PUBLIC_CALLS)])
def test_each_route_of_the_network_is_answered(auth: Auth, calls: dict[str, object]) -> None:
    assert {f"{route.method} {route.path}" for route in NEEDS.routes if route.auth is auth} == calls.keys()


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Bearer another", "Basic {secret}", "{secret}"])
def test_only_who_has_the_projects_secret_is_answered(dapp: Dapp, method: str, path: str, authorization: str) -> None:
    reply = dapp.send(method, path, authorization=authorization.format(secret=dapp.secret))
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "secret" in reply.reason
    assert dapp.secret not in reply.text


def test_a_projects_secret_is_its_own(dapp: Dapp, new_dapp: Callable[..., Dapp]) -> None:
    other = new_dapp()
    for project_id in (other.project_id, "0" * 32):
        assert dapp.send("GET", f"/{project_id}/subscribers").status == 401


def test_a_deactivated_project_is_refused(new_dapp: Callable[..., Dapp]) -> None:
    reply = new_dapp(state=ProjectState.DEACTIVATED.value).claim()
    assert (reply.status, reply.reason) == (401, "the project is deactivated")


def test_a_new_secret_is_good_at_once_and_the_old_one_for_a_minute_at_most(dapp: Dapp) -> None:
    seconds = 0.0
    dapp.worker = replace(dapp.worker, projects=Recent(find_project, lambda: seconds))
    assert dapp.claim().status == 200
    Project(dapp.project_id).update([Project.secret_hash.set(secret_hash("new"))])
    assert dapp.send("GET", "/{project}/subscribers", authorization="Bearer new").status == 200
    assert dapp.claim().status == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/{project}/notify"),
        ("POST", "/v1/notify"),
        ("POST", "/V1/{project}/notify"),
        ("POST", "/{project}/notify/"),
        ("POST", "/0123/notify"),
        ("POST", "/v1/relay-webhook"),
        ("GET", "/"),
    ],
)
def test_what_is_no_route_is_not_found(dapp: Dapp, method: str, path: str) -> None:
    assert dapp.send(method, path).status == 404


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"title": "\\ud800"}'])
def test_a_body_that_is_no_json_is_malformed(dapp: Dapp, raw: bytes) -> None:
    reply = dapp.send("POST", "/{project}/notify", raw=raw)
    assert (reply.status, reply.reason) == (400, "the body is no JSON")


def test_a_request_that_is_too_large(dapp: Dapp) -> None:
    reply = dapp.send("POST", "/{project}/notify", raw=b" " * (dapp.worker.settings.body_bytes + 1))
    assert reply.status == 413


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
FIELDS = ("notification", "accounts", "notification_id", "appDomain", "enabled", "type", "title", "body", "url")


@pytest.fixture(scope="module")
def answering(walletconnect_worker: DappApiWorker) -> Dapp:
    """For as many examples as there are."""
    made = Dapp(replace(walletconnect_worker, projects=Recent(find_project)), Clock())
    made.create()
    assert made.claim().status == 200
    return made


@given(st.sampled_from(ROUTES), st.dictionaries(st.sampled_from(FIELDS), JSON) | JSON)
def test_no_request_makes_it_fail(answering: Dapp, route: list[str], content: Any) -> None:
    """Each that is refused is told why, and none as if it were the service's fault."""
    method, path = route
    reply = answering.send(method, path, content)
    assert reply.status < 500
    assert reply.status < 400 or reply.reason


def test_tables_that_do_not_answer_are_the_services_fault(dapp: Dapp) -> None:
    def unreachable(_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://dynamodb.invalid")

    dapp.worker = replace(dapp.worker, projects=Recent(unreachable))
    reply = dapp.claim()
    assert (reply.status, "Retry-After" in reply.headers) == (503, True)


def test_only_what_cloudfront_sends_is_answered_where_it_says_so(dapp: Dapp) -> None:
    client = boto3.client("secretsmanager")
    client.create_secret(Name="dapp-origin", SecretString='{"secret": "' + "s" * 64 + '"}')
    dapp.worker = replace(dapp.worker, origin=Secret(client, "dapp-origin", OriginSecret))
    assert dapp.claim().status == 404
    assert dapp.send("GET", "/{project}/subscribers", x_clarion_origin="s" * 64).status == 200


def test_no_refusal_says_what_was_sent(dapp: Dapp) -> None:
    for reply in (
        dapp.notify(new_account(), "5EC4E7"),
        dapp.notify(title="5EC4E7" * 20),
        dapp.claim("5EC4E7"),
        dapp.send("POST", "/{project}/notify", {"5EC4E7": "5EC4E7"}, authorization="Bearer 5EC4E7"),
        dapp.send("GET", "/v1/notification/5EC4E7"),
    ):
        assert reply.status >= 400
        assert "5EC4E7" not in reply.text


def test_wallets_of_any_origin_find_the_servers_keys(dapp: Dapp) -> None:
    reply = dapp.send("GET", "/.well-known/did.json", authorization="")

    assert (reply.status, reply.headers["Access-Control-Allow-Origin"]) == (200, "*")
    public = {
        "subscribe": SERVER_KEYS.subscribe.public_key().public_bytes_raw(),
        "authentication": SERVER_KEYS.authentication.public_key().public_bytes_raw(),
    }
    assert {method["id"]: method["publicKeyJwk"]["x"] for method in reply.json["verificationMethod"]} == {
        f"did:web:{DOMAIN}#wc-notify-{use}-key": base64url.encode(key) for use, key in public.items()
    }
    assert SERVER_KEYS.relay_key not in reply.text
