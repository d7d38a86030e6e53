import base64
import hmac
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from clarion.addresses import MAX_CUSTOM_TOKEN_BYTES, MAX_INSTALLATION_ID_BYTES, WebhookAddress, canonical
from clarion.channels import CHANNELS, Channel
from clarion.decisions import PushDecision
from clarion.messages import PushMessage
from clarion.providers.apps import Apps, AppSettings
from clarion.providers.order import Order
from clarion.providers.outcomes import (
    Answered,
    Delivered,
    FirstAnswer,
    Misconfigured,
    Refused,
    RetryLater,
)
from clarion.providers.sender import send
from clarion.providers.transport import Answer, Fault, Timeouts, Transport
from clarion.providers.webhook import (
    MAX_BODY_BYTES,
    WebhookApp,
    WebhookSecret,
    refusal,
    signature,
    webhook_apps,
)
from clarion.settings import WebhookUrl
from clarion.tables import Subscription
from local import tls
from local.http2 import Misbehaviour
from local.provider import InjectedFault, Options
from local.webhook import Webhook
from tests.dispatch.conftest import Worker
from tests.standins import NOW, Clock
from tests.toy import ToyBody

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

FIRST = AppSettings(name="first", secret_id="webhook", alert_title="First")
PUSH_ID = "00000000-0000-8000-8000-000000000001"
CLIENT = "c1" * 32
CONTENT = {"idempotency_key": "k", "message": {"timestamp_ns": 2**63 - 1}}


@pytest.fixture
def webhook(run: Callable[..., Any], localhost: tls.Localhost, clock: Clock) -> Webhook:
    started: Webhook = run(Webhook(localhost.server_context(), options=Options(now=clock)))
    return started


@pytest.fixture
def apps(webhook: Webhook, secrets: Any, clock: Clock) -> Apps[WebhookApp]:
    secrets.texts["webhook"] = webhook.secret_as_json()
    return webhook_apps([FIRST], cast("SecretsManagerClient", secrets), webhook.push_url, clock, public=False)


@pytest.fixture
def push(webhook: Webhook, apps: Apps[WebhookApp], transport: Transport, clock: Clock) -> Callable[..., Answered]:
    """Send one push, to an installation that meets the given trouble."""

    def push(failure: str | Misbehaviour | None = None, **trouble: Any) -> Answered:
        app = apps.find(None, None)
        assert app is not None
        (outcome,) = send(transport, [app.push(order(webhook.install(InjectedFault(failure, **trouble)), clock))])
        return outcome

    return push


@pytest.fixture
def worker(aws: None, apps: Apps[WebhookApp], transport: Transport, queue: Any, lake: Any, clock: Clock) -> Worker:
    return Worker(apps, transport, queue, lake, clock)


@pytest.fixture
def toys(toy: str, register: Callable[..., Subscription], message: Callable[..., PushMessage]) -> Any:
    """A push of a network that serves the webhook, for an installation there."""

    def toys(address: str, **options: Any) -> PushMessage:
        row = register(Channel.WEBHOOK, canonical(Channel.WEBHOOK, address), network=toy, **options)
        return message(row, network=toy, body=ToyBody(room="hall", text="hello"))

    return toys


def order(token: str, clock: Clock, content: object = CONTENT) -> Order[bytes]:
    return Order(token, json.dumps(content).encode(), PUSH_ID, "envelope", useful_until=NOW + 60, now=clock())


def address_of(
    installation_id: str = "phone",
    token: str = "a secret",  # noqa: S107 - none of anybody's
    client: str = CLIENT,
) -> str:
    return json.dumps({"client": client, "installation_id": installation_id, "token": token})


def test_a_push_arrives_signed_for_its_installation(
    webhook: Webhook, apps: Apps[WebhookApp], transport: Transport, clock: Clock
) -> None:
    app, installed = apps.find(None, None), webhook.install()
    assert app is not None
    address = json.loads(installed)

    assert send(transport, [app.push(order(installed, clock))]) == [Delivered(status=200, provider_id=PUSH_ID)]

    (received,) = webhook.received
    assert received.accepted
    installation = received.payload.pop("installation")
    assert received.payload == CONTENT
    assert installation == {
        "id": address["installation_id"],
        "delivery_mechanism": {"kind": "custom", "token": received.token},
    }
    assert received.headers["content-type"] == "application/json"
    assert (received.push_id, received.headers["webhook-timestamp"]) == (PUSH_ID, str(int(NOW)))


def test_a_push_says_in_signed_headers_whose_it_is(
    webhook: Webhook, apps: Apps[WebhookApp], transport: Transport, clock: Clock
) -> None:
    app, installed = apps.find(None, None), webhook.install()
    assert app is not None
    client = json.loads(installed)["client"]

    send(transport, [app.push(order(installed, clock))])

    [received] = webhook.received
    signed = f"{PUSH_ID}.{int(NOW)}.{client}".encode()
    made = base64.b64encode(hmac.digest(webhook.signing_key, signed, "sha256")).decode()
    names = ("clarion-client", "clarion-client-signature")
    assert [received.headers[name] for name in names] == [client, f"v1,{made}"]


def test_a_signature_is_that_of_standard_webhooks() -> None:
    """Their own example: https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/README.md"""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_push_that_was_changed_or_is_old_is_noticed(
    webhook: Webhook, apps: Apps[WebhookApp], transport: Transport, clock: Clock
) -> None:
    app = apps.find(None, None)
    assert app is not None
    one = app.push(order(webhook.install(), clock))
    bearer = one.credential.bearer()
    assert isinstance(bearer, str)
    request = one.request(bearer)

    as_anothers = [f"clarion-client: {CLIENT}" if "clarion-client:" in each else each for each in request.headers]

    transport.send([request._replace(body=(request.body or b"") + b" ")])
    transport.send([request._replace(headers=as_anothers)])
    clock.advance(301)
    transport.send([request])

    assert [received.reason for received in webhook.received] == ["BadSignature", "BadClientSignature", "BadTimestamp"]


@pytest.mark.parametrize("status", [*range(201, 207), 400, 404, 405, 409, 410, 413, 415, 422, 451, 499])
def test_what_is_neither_200_nor_temporary_gives_up_the_push_and_ends_no_subscription(status: int) -> None:
    outcome = refusal(Answer(status, b"", retry_after=3))

    assert isinstance(outcome, Refused)
    assert outcome.status == status


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_is_temporary_is_tried_again_when_the_receiver_says(status: int) -> None:
    outcome = refusal(Answer(status, b"", retry_after=37))

    assert isinstance(outcome, RetryLater)
    assert (outcome.status, outcome.after) == (status, 37)


@given(status=st.integers(201, 599), body=st.binary(max_size=200))
def test_a_reason_is_what_a_status_is_called_whatever_the_answer_says(status: int, body: bytes) -> None:
    assert refusal(Answer(status, body)) == refusal(Answer(status, b""))


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        ("NoContent", Refused(status=204, reason="No Content")),
        ("NotFound", Refused(status=404, reason="Not Found")),
        ("Gone", Refused(status=410, reason="Gone")),
        ("PermanentRedirect", Misconfigured(status=308, reason="Permanent Redirect")),
        ("Forbidden", Misconfigured(status=403, reason="Forbidden")),
        ("InternalServerError", RetryLater(status=500, reason="Internal Server Error")),
        (Misbehaviour.RESET_STREAM, RetryLater(status=None, reason="HTTP/2 stream reset")),
    ],
    ids=str,
)
def test_each_answer_over_the_wire_means_what_the_page_says(
    push: Callable[..., Answered], failure: str | Misbehaviour, outcome: FirstAnswer
) -> None:
    assert push(failure) == outcome


@pytest.mark.parametrize("timeouts", [Timeouts(connect=1.0, answer=1.0)])
def test_a_receiver_that_does_not_answer_is_tried_again(push: Callable[..., Answered]) -> None:
    assert push(Misbehaviour.SILENCE) == RetryLater(status=None, reason="timed out")


def test_retry_after_is_passed_on(push: Callable[..., Answered]) -> None:
    assert push("TooManyRequests", retry_after=37) == RetryLater(status=429, reason="Too Many Requests", after=37)


def test_a_redirect_is_not_followed(webhook: Webhook, push: Callable[..., Answered]) -> None:
    push("PermanentRedirect")

    assert webhook.received.count == 1


def test_a_secret_that_was_replaced_is_read_anew_and_tried_once_more(
    webhook: Webhook, push: Callable[..., Answered], secrets: Any
) -> None:
    push()
    webhook.signing_key = bytes(32)
    secrets.texts["webhook"] = webhook.secret_as_json()

    assert isinstance(push(), Delivered)
    assert [received.status for received in webhook.received] == [200, 401, 200]


def test_a_secret_that_is_not_the_receivers_is_a_fault_of_the_configuration(
    webhook: Webhook, push: Callable[..., Answered]
) -> None:
    webhook.authorization = "another"

    assert push() == Misconfigured(status=401, reason="Unauthorized")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"authorization": "x"},
        {"authorization": "", "signing_key": base64.b64encode(bytes(32)).decode()},
        {"authorization": "x\r\nhost: y", "signing_key": base64.b64encode(bytes(32)).decode()},
        {"authorization": "x\n", "signing_key": base64.b64encode(bytes(32)).decode()},
        {"authorization": "Bearer secret", "signing_key": base64.b64encode(bytes(23)).decode()},
        {"authorization": "Bearer secret", "signing_key": base64.b64encode(bytes(65)).decode()},
        {"authorization": "Bearer secret", "signing_key": "no base64, but secret"},
    ],
)
def test_a_secret_that_can_not_be_used_stops_the_app_and_is_not_shown(
    push: Callable[..., Answered], secrets: Any, wrong: dict[str, str]
) -> None:
    secrets.texts["webhook"] = json.dumps(wrong)

    outcome = push()

    assert isinstance(outcome, Misconfigured)
    assert outcome.reason.startswith("secret: webhook is no WebhookSecret")
    assert "Bearer" not in outcome.reason
    assert "but" not in outcome.reason


@pytest.mark.parametrize("prefix", ["whsec_", ""])
def test_a_key_is_taken_with_the_prefix_of_its_kind_and_without(prefix: str) -> None:
    text = {"authorization": "Basic eDp5", "signing_key": prefix + base64.b64encode(bytes(range(24))).decode()}
    secret = WebhookSecret.model_validate_json(json.dumps(text))
    assert (secret.authorization, secret.signing_key) == ("Basic eDp5", bytes(range(24)))
    assert "eDp5" not in repr(secret)


def test_a_receiver_that_can_not_be_reached_is_tried_again(apps: Apps[WebhookApp], clock: Clock) -> None:
    app = apps.find("first", "sandbox")
    assert app is not None

    outcome = app.push(order(address_of(), clock)).outcome(Fault(7, "not connected"))

    assert outcome == RetryLater(status=None, reason="not connected")


def test_a_webhook_is_sent_to_at_a_public_address_only(
    webhook: Webhook, secrets: Any, transport: Transport, clock: Clock
) -> None:
    secrets.texts["webhook"] = webhook.secret_as_json()
    app = webhook_apps([FIRST], cast("SecretsManagerClient", secrets), webhook.push_url, clock).find(None, None)
    assert app is not None

    (outcome,) = send(transport, [app.push(order(webhook.install(), clock))])

    assert outcome == RetryLater(status=None, reason="not connected")
    assert webhook.received.count == 0


def test_a_push_shows_neither_token_nor_content_nor_secret(
    webhook: Webhook, apps: Apps[WebhookApp], clock: Clock
) -> None:
    app = apps.find(None, None)
    assert app is not None
    one = app.push(order(address_of(), clock, {"idempotency_key": "the content"}))
    bearer = one.credential.bearer()
    assert isinstance(bearer, str)
    key = base64.b64encode(webhook.signing_key).decode()

    for shown in (repr(one), repr(one.request(bearer)), repr(WebhookAddress.parse(address_of()))):
        assert not [each for each in ("a secret", "phone", "the content", bearer, key) if each in shown]


@pytest.mark.parametrize("content", [[], "text", 1, None])
def test_a_payload_that_is_no_json_object_makes_no_push(apps: Apps[WebhookApp], clock: Clock, content: object) -> None:
    app = apps.find(None, None)
    assert app is not None
    with pytest.raises(ValueError, match="JSON object"):
        app.push(order(address_of(), clock, content))


@pytest.mark.parametrize(
    "url", ["https://push.example.org", "https://push.example.org/", "https://push.example.org:8443/v1/xmtp%20/~me"]
)
def test_a_url_is_https_with_a_host_and_a_path(url: str) -> None:
    assert TypeAdapter(WebhookUrl).validate_python(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://push.example.org/",
        "https://",
        "https:///path",
        "https://user:secret@push.example.org/",
        "https://push.example.org/?key=secret",
        "https://push.example.org/#secret",
        "https://push.example.org:0/",
        "https://push.example.org/\r\nx: secret",
        "https://push.example.org\n",
        "https://PUSH.example.org/",
        "https://push.example.org\\@secret/",
        "https://[::1]/",
    ],
)
def test_a_url_holds_no_password_or_key(url: str) -> None:
    with pytest.raises(ValidationError, match="not an https URL"):
        TypeAdapter(WebhookUrl).validate_python(url)


def text_of_bytes(limit: int) -> st.SearchStrategy[str]:
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=limit)
    return text.filter(lambda drawn: len(drawn.encode()) <= limit)


ADDRESSES = st.builds(
    WebhookAddress,
    client=st.binary(min_size=32, max_size=32).map(bytes.hex),
    installation_id=text_of_bytes(MAX_INSTALLATION_ID_BYTES),
    token=text_of_bytes(MAX_CUSTOM_TOKEN_BYTES),
)


@given(ADDRESSES)
def test_an_address_has_one_spelling_however_it_is_written(address: WebhookAddress) -> None:
    parts = {"token": address.token, "installation_id": address.installation_id, "client": address.client}
    written = json.dumps(parts, indent=1)

    text = canonical(Channel.WEBHOOK, written)

    assert text == canonical(Channel.WEBHOOK, text) == address.text
    assert WebhookAddress.parse(text) == address
    assert list(json.loads(text)) == ["client", "installation_id", "token"]


def test_an_address_spells_text_as_it_is() -> None:
    text = canonical(Channel.WEBHOOK, address_of("é", "\n"))
    assert text == f'{{"client":"{CLIENT}","installation_id":"é","token":"\\n"}}'


@pytest.mark.parametrize("filling", ["x", "\0", "é", '"', "\U0001f4f1"])
def test_a_body_stays_below_its_maximum_whatever_the_address(
    apps: Apps[WebhookApp], clock: Clock, filling: str
) -> None:
    parts = [
        filling * (limit // len(filling.encode())) for limit in (MAX_INSTALLATION_ID_BYTES, MAX_CUSTOM_TOKEN_BYTES)
    ]
    content = {"text": "é" * 30_714}
    size = len(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())
    assert size == CHANNELS[Channel.WEBHOOK].payload_bytes - 1
    app = apps.find(None, None)
    assert app is not None
    one = app.push(order(address_of(*parts), clock, content))
    assert size < len(one.body) <= MAX_BODY_BYTES == 69_632


def test_a_body_above_its_maximum_makes_no_push(apps: Apps[WebhookApp], clock: Clock) -> None:
    app = apps.find(None, None)
    assert app is not None
    with pytest.raises(ValueError, match="at most 69632 bytes"):
        app.push(order(address_of(), clock, {"text": "x" * MAX_BODY_BYTES}))


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "secret",
        "[]",
        "{}",
        '{"installation_id": "x", "token": "secret"}',
        f'{{"client": "{CLIENT}", "installation_id": "secret"}}',
        f'{{"client": "{CLIENT}", "installation_id": "x", "token": ""}}',
        f'{{"client": "{CLIENT}", "installation_id": "", "token": "secret"}}',
        f'{{"client": "{CLIENT}", "installation_id": 1, "token": "secret"}}',
        f'{{"client": "{CLIENT}", "installation_id": "x", "token": "secret", "more": 1}}',
        f'{{"client": "{CLIENT}", "installation_id": "x", "token": "\\ud800 secret"}}',
        address_of("x" * 257),
        address_of("é" * 129),
        address_of(token="x" * 1025),
        address_of(token="é" * 513),
        address_of(client=""),
        address_of(client=CLIENT.upper()),
        address_of(client=CLIENT[:-2]),
        address_of(client=CLIENT + "\n"),
    ],
)
def test_what_is_no_address_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(ValueError, match="not a JSON object of client, installation_id and token") as refused:
        canonical(Channel.WEBHOOK, wrong)
    assert "secret" not in str(refused.value)


def test_a_push_of_a_network_that_serves_the_webhook_is_delivered(
    worker: Worker, webhook: Webhook, toys: Any, queue: Any, lake: Any
) -> None:
    address = webhook.install()
    queue.put(toys(address))

    assert worker.work().decisions == {PushDecision.DELIVERED: 1}

    (received,) = webhook.received
    assert (received.payload["room"], received.payload["installation"]["id"]) == (
        "hall",
        json.loads(address)["installation_id"],
    )
    assert [event["provider_id"] for event in lake.events] == [received.push_id]
    assert received.token not in json.dumps(lake.events)


def test_a_push_to_a_webhook_is_not_sealed(worker: Worker, webhook: Webhook, toys: Any, queue: Any) -> None:
    queue.put(toys(webhook.install(), device_key=bytes(range(32))))
    worker.work()
    (received,) = webhook.received
    assert received.payload["text"] == "hello"


def test_a_push_is_repeated_under_its_own_name_no_sooner_than_the_receiver_asks(
    worker: Worker, webhook: Webhook, toys: Any, queue: Any, clock: Clock
) -> None:
    message = toys(webhook.install(InjectedFault("ServiceUnavailable", retry_after=40, times=1)))
    queue.put(message)

    worker.work()
    assert 40 <= queue.wait(message) <= 60
    clock.advance(60)

    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    first, second = webhook.received
    assert first.push_id == second.push_id
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


@pytest.mark.parametrize("failure", ["NotFound", "Gone", "BadRequest", "NoContent"])
def test_no_answer_ends_a_subscription(worker: Worker, webhook: Webhook, toys: Any, queue: Any, failure: str) -> None:
    message = toys(webhook.install(InjectedFault(failure)))
    queue.put(message)

    assert worker.work().decisions == {PushDecision.REFUSED: 1}

    assert (len(queue), len(queue.dead)) == (0, 1)
    assert Subscription.get(str(message.subscription_id)).status == "active"


def test_pushes_wait_while_the_receiver_refuses_our_secret(
    worker: Worker, webhook: Webhook, toys: Any, queue: Any, clock: Clock
) -> None:
    ours, webhook.authorization = webhook.authorization, "another"
    for _ in range(3):
        queue.put(toys(webhook.install()))

    assert worker.work().decisions == {PushDecision.MISCONFIGURED: 3}
    assert (queue.held, webhook.received.count) == (3, 1)

    webhook.authorization = ours
    clock.advance(900)
    assert worker.work().decisions == {PushDecision.DELIVERED: 3}


def test_a_network_that_does_not_serve_the_webhook_pushes_nothing_there(
    worker: Worker,
    webhook: Webhook,
    queue: Any,
    register: Callable[..., Subscription],
    message: Callable[..., PushMessage],
) -> None:
    queue.put(message(register(Channel.WEBHOOK, canonical(Channel.WEBHOOK, webhook.install()))))

    assert worker.work().decisions == {PushDecision.REFUSED: 1}
    assert webhook.received.count == 0
