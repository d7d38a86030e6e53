import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from clarion.clock import now_ms
from clarion.providers.apps import AppSettings
from clarion.providers.outcomes import (
    Answered,
    CredentialRejected,
    Delivered,
    FirstAnswer,
    Misconfigured,
    Refused,
    RetryLater,
    TokenGone,
    TokenOrApp,
)
from clarion.providers.sender import send
from clarion.providers.transport import Answer, Fault, Request, Transport
from clarion.providers.webpush import Urgency, WebPushApp, WebPushApps, WebPushPush, refusal, topic
from clarion.providers.webpush_address import PUSH_SERVICES, WebPushAddress
from clarion.tables import Subscription
from dispatch.attempts import apply_registration_time
from local import http2, keys, tls
from local.http2 import Http2Server, Response

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

CREATED = http2.ServedAnswer(Response(201, (("location", "https://push.example.com/m/capability"),)))
FIRST = AppSettings(name="first", secret_id="vapid", alert_title="First")
SECOND = AppSettings(name="second", secret_id="other")
P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
GOOGLE, MOZILLA = "https://fcm.googleapis.com", "https://updates.push.services.mozilla.com"
WINDOWS = "https://par02p.notify.windows.com"


class Service(Http2Server):
    """Notes what it gets, and answers by path."""

    def __init__(self, context: Any) -> None:
        self.requests: list[http2.ServedRequest] = []
        self.answers: dict[str, http2.ServedAnswer] = {}
        super().__init__(self._respond, context, max_streams=100)

    def _respond(self, request: http2.ServedRequest, _connection: http2.Connection) -> http2.ServedAnswer:
        self.requests.append(request)
        return self.answers.get(request.path, CREATED)


@pytest.fixture
def service(run: Callable[..., Any], localhost: tls.Localhost) -> Service:
    started: Service = run(Service(localhost.server_context()))
    return started


@pytest.fixture
def new_apps(secrets: Any, clock: Any) -> Callable[..., WebPushApps]:
    """With the public push services, and some of our own."""
    for name in ("vapid", "other"):
        secret = {"private_key": keys.generate_apns_key().private_key, "subject": "mailto:push@example.com"}
        secrets.texts[name] = json.dumps(secret)
    return lambda *own: WebPushApps(
        [FIRST, SECOND], cast("SecretsManagerClient", secrets), (*PUSH_SERVICES, *own), clock
    )


@pytest.fixture
def push(service: Service, new_apps: Callable[..., WebPushApps], transport: Transport) -> Callable[..., Answered]:
    """Send one push to the service."""
    apps = new_apps(service.url.removeprefix("https://"))

    def push(path: str = "/wpush/v2/x", **changes: Any) -> Answered:
        token = token_at(f"{service.url}{path}")
        app = apps.find(None, None, token)
        assert app is not None
        fields: dict[str, Any] = {"content": b"{}", "ttl": 60} | changes
        (outcome,) = send(transport, [WebPushPush(app=app, address=WebPushAddress.parse(token), **fields)])
        return outcome

    return push


def token_at(endpoint: str) -> str:
    return json.dumps({"endpoint": endpoint, "p256dh": P256DH, "auth": AUTH})


def push_for(app: WebPushApp | None, endpoint: str) -> WebPushPush:
    assert app is not None
    return WebPushPush(app=app, address=WebPushAddress.parse(token_at(endpoint)), content=b"hello", ttl=60)


def request_of(push: WebPushPush) -> Request:
    bearer = push.credential.bearer()
    assert isinstance(bearer, str)
    return push.request(bearer)


def test_a_push_is_a_request_as_the_rfcs_have_it(service: Service, push: Callable[..., Answered]) -> None:
    push(ttl=60, urgency=Urgency.NORMAL, collapse_id="statement", content=b"x" * 3993)

    (request,) = service.requests
    assert (request.method, request.path, len(request.body)) == ("POST", "/wpush/v2/x", 4096)
    expected = {
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        "ttl": "60",
        "urgency": "normal",
        "topic": topic("statement"),
    }
    assert {name: request.header(name) for name in expected} == expected


def test_a_push_is_signed_for_the_origin_with_the_key_that_it_names(
    service: Service, push: Callable[..., Answered]
) -> None:
    push()

    scheme, token, key = (service.requests[0].header("authorization") or "").split(" ")
    assert (scheme, token[:2], token[-1], key[:2]) == ("vapid", "t=", ",", "k=")
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), jwt.utils.base64url_decode(key[2:]))
    claims = jwt.decode(token[2:-1], point, algorithms=["ES256"], audience=service.url, options={"verify_exp": False})
    assert claims["sub"] == "mailto:push@example.com"


def test_a_push_without_a_collapse_id_replaces_none(service: Service, push: Callable[..., Answered]) -> None:
    push()

    assert service.requests[0].header("topic") is None
    assert service.requests[0].header("urgency") == "high"


@given(st.text(max_size=200))
def test_a_topic_has_the_form_that_is_allowed(collapse_id: str) -> None:
    assert len(topic(collapse_id)) == 32
    assert topic(collapse_id).replace("-", "").replace("_", "").isalnum()
    assert topic(collapse_id) == topic(collapse_id) != topic(f"{collapse_id}.")


@pytest.mark.parametrize("status", [200, 201, 202])
def test_an_accepted_push_is_delivered_and_its_capability_goes_nowhere(
    service: Service, push: Callable[..., Answered], status: int
) -> None:
    service.answers["/x"] = http2.ServedAnswer(Response(status, (("location", f"{service.url}/m/capability"),)))

    assert push("/x") == Delivered(status=status)


def of_apple(reason: str) -> bytes:
    return json.dumps({"reason": reason}).encode()


def of_mozilla(status: int, errno: int) -> bytes:
    return json.dumps({"code": status, "errno": errno, "error": "x", "message": "y", "more_info": "z"}).encode()


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (404, b"", TokenGone(status=404, reason="Not Found")),
        (404, of_mozilla(404, 102), TokenGone(status=404, reason="errno 102")),
        (410, b"<html>", TokenGone(status=410, reason="Gone")),
        (410, of_mozilla(410, 106), TokenGone(status=410, reason="errno 106")),
        (410, of_apple("Unregistered"), TokenGone(status=410, reason="Unregistered")),
        (401, of_mozilla(401, 109), TokenOrApp(status=401, reason="errno 109")),
        (403, b"the VAPID credentials do not correspond", TokenOrApp(status=403, reason="Forbidden")),
        (403, of_apple("BadJwtToken"), CredentialRejected(status=403, reason="BadJwtToken")),
        (400, of_apple("VapidPkHashMismatch"), TokenOrApp(status=400, reason="VapidPkHashMismatch")),
        (400, b"", TokenOrApp(status=400, reason="Bad Request")),
        (400, of_apple("BadWebPushTopic"), TokenOrApp(status=400, reason="BadWebPushTopic")),
        (400, of_mozilla(400, 110), TokenOrApp(status=400, reason="errno 110")),
        (413, b"", Refused(status=413, reason="Content Too Large")),
        (307, b"", TokenOrApp(status=307, reason="Temporary Redirect")),
        (499, b"", TokenOrApp(status=499, reason="unknown status")),
        (406, b"", RetryLater(status=406, reason="Not Acceptable")),
        (408, b"", RetryLater(status=408, reason="Request Timeout")),
        (429, b"", RetryLater(status=429, reason="Too Many Requests")),
        (500, b"", RetryLater(status=500, reason="Internal Server Error")),
        (503, of_mozilla(503, 201), RetryLater(status=503, reason="errno 201")),
    ],
)
def test_an_answer_means_what_the_push_services_say(status: int, body: bytes, outcome: FirstAnswer) -> None:
    assert refusal(Answer(status, body)) == outcome


@pytest.mark.parametrize("status", [404, 410])
def test_an_endpoint_that_has_gone_ends_its_subscription_however_young_that_is(status: int) -> None:
    gone, young = refusal(Answer(status, b"")), Subscription("young", created_at=now_ms())
    assert isinstance(gone, TokenGone)

    assert apply_registration_time(gone, young, 1) == gone


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_passed_on(service: Service, push: Callable[..., Answered], status: int) -> None:
    service.answers["/x"] = http2.ServedAnswer(Response(status, (("retry-after", "37"),)))

    outcome = push("/x")

    assert isinstance(outcome, RetryLater)
    assert (outcome.status, outcome.after) == (status, 37)


def test_a_service_that_can_not_be_reached_is_tried_again(new_apps: Callable[..., WebPushApps]) -> None:
    one = push_for(new_apps().find(None, None, token_at(f"{GOOGLE}/x")), f"{GOOGLE}/x")

    assert one.outcome(Fault(7, "no connection")) == RetryLater(status=None, reason="no connection")


@given(status=st.integers(300, 599), body=st.binary(max_size=200) | st.text().map(of_apple))
def test_a_reason_is_a_word_or_a_status_whatever_the_answer_says(status: int, body: bytes) -> None:
    outcome = refusal(Answer(status, body))

    assert outcome.reason
    assert outcome.reason.replace(" ", "").replace("-", "").replace("'", "").isalnum()
    assert isinstance(outcome, TokenGone) == (status in {404, 410})


def test_each_push_service_is_an_app_of_its_own(new_apps: Callable[..., WebPushApps]) -> None:
    apps = new_apps()

    google, mozilla = (apps.find(None, None, token_at(f"{origin}/x")) for origin in (GOOGLE, MOZILLA))
    assert google is not None
    assert mozilla is not None
    assert google.credential is not mozilla.credential
    assert (google.name, google.title) == ("first fcm.googleapis.com", "First")
    assert mozilla.name == "first updates.push.services.mozilla.com"


def test_a_subscription_names_the_app_whose_key_it_was_made_with(new_apps: Callable[..., WebPushApps]) -> None:
    apps = new_apps()

    first, second = (apps.find(name, "production", token_at(f"{WINDOWS}/x")) for name in (None, "second"))
    assert first is apps.find("first", None, token_at(f"{WINDOWS}/y"))
    assert second is not None
    assert second.name == "second *.notify.windows.com"
    assert first is not None
    assert first.credential.bearer() != second.credential.bearer()
    assert apps.find("third", None, token_at(f"{WINDOWS}/x")) is None


@pytest.mark.parametrize("token", ["", "a1b2", token_at("https://evil.example/x"), token_at(f"{GOOGLE}:8443/x")])
def test_what_is_no_address_of_a_push_service_has_no_app(new_apps: Callable[..., WebPushApps], token: str) -> None:
    assert new_apps().find(None, None, token) is None


def test_the_hosts_below_a_wildcard_get_tokens_of_their_own(new_apps: Callable[..., WebPushApps]) -> None:
    apps = new_apps()
    audiences = []
    for host in ("par02p", "bl2p"):
        endpoint = f"https://{host}.notify.windows.com/w/?token=x"
        request = request_of(push_for(apps.find(None, None, token_at(endpoint)), endpoint))
        token = request.headers[0].split("t=")[1].split(",")[0]
        audiences.append(jwt.decode(token, options={"verify_signature": False})["aud"])
        assert (request.url, request.lane) == (endpoint, "first *.notify.windows.com")

    assert audiences == ["https://par02p.notify.windows.com", "https://bl2p.notify.windows.com"]


def test_a_public_push_service_is_sent_to_at_public_addresses_only(new_apps: Callable[..., WebPushApps]) -> None:
    apps = new_apps("localhost:8443", "push.example.com")
    endpoints = {f"{GOOGLE}/x": True, "https://localhost:8443/x": False, "https://push.example.com/x": True}

    for endpoint, public in endpoints.items():
        assert request_of(push_for(apps.find(None, None, token_at(endpoint)), endpoint)).public == public


def test_a_key_that_can_not_be_read_stops_the_app(push: Callable[..., Answered], secrets: Any) -> None:
    del secrets.texts["vapid"]

    assert push() == Misconfigured(status=None, reason="secret: ResourceNotFoundException")


def test_one_refused_subscription_does_not_stop_the_others(service: Service, push: Callable[..., Answered]) -> None:
    service.answers["/foreign"] = http2.ServedAnswer(Response(403))

    assert isinstance(push("/foreign"), TokenOrApp)
    assert isinstance(push("/ours"), Delivered)
    assert [request.path for request in service.requests] == ["/foreign", "/ours"]


def test_a_push_shows_neither_address_nor_content(new_apps: Callable[..., WebPushApps]) -> None:
    push = push_for(new_apps().find(None, None, token_at(f"{GOOGLE}/secret")), f"{GOOGLE}/secret")

    for shown in (repr(push), repr(request_of(push))):
        assert "secret" not in shown
        assert "hello" not in shown
        assert "vapid t" not in shown
