import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl
from uuid import uuid4

import boto3
import jwt
import pytest
import sr25519
from moto import mock_aws

from api import requests
from api.app import handle
from api.authorization import Authorizer
from api.networks.statements import direct
from api.settings import ApiSettings, AuthorizerSettings, DirectPushSettings
from api.worker import ApiWorker
from clarion import backoff
from clarion.providers.transport import Timeouts, Transport
from clarion.tables import Quota, RuleRow, Subscription, Token, WakeUp
from local import keys, tls
from local.apns import Apns
from local.fcm import Fcm
from local.gateway import Gateway
from tests.api.proving import Inbox
from tests.standins import running

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SECRET = "a secret shared with the existing solution, long enough for HS512"


LOGIN_SECRET = "a secret that only the standalone login knows"
BUNDLE = "io.pcf.polkadotapp"
DOMAIN = "push.example.org"
APPS = {"apns": ["first", "tablet"], "voip": ["first", "tablet"], "fcm": ["first", "robot"], "webpush": ["first"]}


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Client:
    """A phone: sends requests through the authorizer and the API function, as API Gateway would."""

    authorizer: Authorizer
    worker: ApiWorker
    key: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(self, method: str, path: str, body: Any = None, *, raw: str | None = None, **headers: str) -> Answer:
        sent = {"content-type": "application/json"} | self.headers | headers
        path, _, query = path.partition("?")
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": query,
            "headers": sent,
            "requestContext": {"http": {"method": method, "path": path}, "requestId": "r", "stage": "$default"},
            "body": raw if raw is not None else None if body is None else json.dumps(body),
            "isBase64Encoded": False,
        }
        if query:
            event["queryStringParameters"] = dict(parse_qsl(query, keep_blank_values=True))
        decision = self.authorizer(event)
        assert decision["isAuthorized"]
        event["requestContext"]["authorizer"] = {"lambda": decision["context"]}
        answer = handle(event, cast("LambdaContext", None), self.worker)
        return Answer(answer["statusCode"], answer["headers"], answer.get("body") or "")


@pytest.fixture(autouse=True)
def tables_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands for DynamoDB here is slower than it, the more so on a busy machine; and nobody else writes to it."""
    monkeypatch.setattr(requests, "REQUEST_SECONDS", 600)
    monkeypatch.setattr(backoff, "BACKOFF_SECONDS", 0)


@pytest.fixture
def new_token() -> Callable[..., str]:
    """A token of the existing solution; arguments replace claims, `None` leaves one out."""

    def make(secret: str = SECRET, algorithm: str = "HS256", **changes: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": "polkadot-app",
            "aud": "clarion",
            "sub": sr25519.pair_from_seed(b"s" * 32)[0].hex(),
            "iat": now,
            "exp": now + 86_400,
        } | changes
        present = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(present, secret, algorithm=algorithm)

    return make


@pytest.fixture(scope="module")
def aws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield


@pytest.fixture(scope="module")
def worker(aws: None) -> ApiWorker:
    boto3.client("secretsmanager").create_secret(Name="login", SecretString=json.dumps({"secret": LOGIN_SECRET}))
    sqs = boto3.client("sqs")
    settings = ApiSettings(
        table_prefix="clarion-test-",
        events_stream="lake",
        late_events_queue_url="late-events",
        lake_bucket="lake",
        cleanup_queue_url=sqs.create_queue(QueueName="cleanup")["QueueUrl"],
        apps=json.dumps(APPS),
        push_queues=json.dumps({channel: sqs.create_queue(QueueName=channel)["QueueUrl"] for channel in APPS}),
        requests_per_ten_seconds=100_000,
        rules_per_minute=10_000_000,
        login_secret_id="login",
        login_domain=DOMAIN,
    )
    worker = ApiWorker.open(settings)
    for model in (Subscription, Token, RuleRow, Quota, WakeUp):
        model.create_table(billing_mode="PAY_PER_REQUEST")
    boto3.client("s3").create_bucket(Bucket="lake")
    boto3.client("firehose").create_delivery_stream(
        DeliveryStreamName="lake",
        ExtendedS3DestinationConfiguration={
            "RoleARN": "arn:aws:iam::123456789012:role/lake",
            "BucketARN": "arn:aws:s3:::lake",
        },
    )
    return worker


@pytest.fixture(scope="module")
def authorizer(worker: ApiWorker) -> Authorizer:
    secrets = boto3.client("secretsmanager")
    secrets.create_secret(Name="jwt", SecretString=json.dumps({"secret": SECRET}))
    settings = AuthorizerSettings(
        jwt_secret_id="jwt", jwt_audience="clarion", login_secret_id="login", login_domain=DOMAIN
    )
    return Authorizer(settings, secrets)


class Providers:
    """Both of Apple's environments and Firebase, each a real HTTP/2 server."""

    def __init__(self, stack: ExitStack, localhost: tls.Localhost) -> None:
        self.key, self.account = keys.generate_apns_key(), keys.generate_service_account()
        self.production, self.sandbox = (
            stack.enter_context(running(Apns(localhost.server_context(), known=[self.key], topics=[BUNDLE])))
            for _ in range(2)
        )
        self.fcm = stack.enter_context(running(Fcm(localhost.server_context(), account=self.account)))
        self.ca_file = str(localhost.ca_file)


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    with ExitStack() as stack:
        yield Providers(stack, tls.issue(tmp_path_factory.mktemp("tls")))


@pytest.fixture(scope="module")
def pushing(providers: Providers, worker: ApiWorker) -> Iterator[Callable[..., ApiWorker]]:
    """Makes the worker with direct push switched on, towards the providers' stand-ins, however late they answer."""
    secrets = boto3.client("secretsmanager")
    key = {"key_id": providers.key.key_id, "team_id": providers.key.team_id, "private_key": providers.key.private_key}
    secrets.create_secret(Name="apns", SecretString=json.dumps(key))
    secrets.create_secret(Name="fcm", SecretString=providers.account.as_json(providers.fcm.token_uri))
    settings = DirectPushSettings(
        apns_secret_id="apns",
        fcm_secret_id="fcm",
        bundle_id=BUNDLE,
        apns_url=providers.production.url,
        apns_sandbox_url=providers.sandbox.url,
        fcm_url=providers.fcm.url,
        ca_file=providers.ca_file,
    )

    def make(**limits: int) -> ApiWorker:
        return replace(
            worker, settings=worker.settings.model_copy(update={"direct_push": settings.model_copy(update=limits)})
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "Transport", partial(Transport, timeouts=Timeouts(connect=60.0, answer=60.0)))
        yield make


@pytest.fixture(scope="module")
def gateway(worker: ApiWorker, authorizer: Authorizer) -> Iterator[Gateway]:
    """The API on a socket, its authorizer before it."""
    with Gateway(authorizer, lambda event: handle(event, cast("LambdaContext", None), worker)) as running:
        yield running


@pytest.fixture
def new_client(worker: ApiWorker, authorizer: Authorizer, new_token: Callable[..., str]) -> Callable[[], Client]:
    def make() -> Client:
        key, _ = sr25519.pair_from_seed(uuid4().bytes * 2)
        return Client(authorizer, worker, key, {"authorization": f"Bearer {new_token(sub=key.hex())}"})

    return make


@pytest.fixture
def client(new_client: Callable[[], Client]) -> Client:
    return new_client()


@pytest.fixture
def register() -> Callable[..., str]:
    """Registers a fresh token, or the one of `body`, and returns the subscription's id."""

    def make(client: Client, **body: str) -> str:
        answer = client("POST", "/v1/subscriptions", body or {"notificationType": "apns", "token": uuid4().hex * 2})
        assert answer.status == 201, answer.text
        return str(answer.json["subscription_id"])

    return make


@pytest.fixture
def inbox(worker: ApiWorker) -> Inbox:
    inbox = Inbox(worker)
    for channel in worker.settings.push_queues:
        inbox.pushes(channel)
    return inbox


@pytest.fixture
def policy(worker: ApiWorker) -> Callable[..., ApiWorker]:
    """The worker with other settings."""
    return lambda **changes: replace(worker, settings=worker.settings.model_copy(update=changes))
