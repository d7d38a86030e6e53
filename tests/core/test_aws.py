from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import ClientError, DataNotFoundError
from botocore.loaders import Loader
from botocore.session import Session, get_session

from clarion import backoff
from clarion.aws import CONFLICT, CONFLICT_ATTEMPTS, ModelLoader, prepare
from clarion.signature import JSON_SERVICES

REGION = "eu-central-1"


@pytest.fixture
def session() -> Session:
    session = get_session()
    session.set_credentials("an-access-key", "a-secret")
    session.set_config_variable("region", REGION)
    prepare(session)
    return session


def sent_by(session: Session, service: str, operation: str, **arguments: Any) -> list[Any]:
    """What a client sends for two calls."""
    requests: list[Any] = []

    def answer(request: Any, **_: object) -> AWSResponse:
        requests.append(request)
        return AWSResponse(request.url, 200, HTTPHeaders(), Body())

    client = session.create_client(service)
    client.meta.events.register("before-send", answer)  # type: ignore[arg-type] # an answer counts
    for _ in range(2):
        getattr(client, operation)(**arguments)
    return requests


class ConflictBody:
    def stream(self) -> list[bytes]:
        return [f'{{"__type": "com.amazonaws.dynamodb.v20120810#{CONFLICT}"}}'.encode()]


@pytest.mark.parametrize("operation", ["update_item", "put_item", "delete_item"])
@pytest.mark.parametrize("met", [CONFLICT_ATTEMPTS - 1, CONFLICT_ATTEMPTS])
def test_a_write_that_meets_transactions_is_tried_again_for_a_while(
    session: Session, monkeypatch: pytest.MonkeyPatch, operation: str, met: int
) -> None:
    monkeypatch.setattr(backoff, "BACKOFF_SECONDS", 0)
    bodies = iter([*[ConflictBody()] * met, Body()])

    def answer(request: Any, **_: object) -> AWSResponse:
        body = next(bodies)
        return AWSResponse(request.url, 400 if isinstance(body, ConflictBody) else 200, HTTPHeaders(), body)

    # As the API's client is set up: what AWS leaves unanswered is tried twice.
    client = session.create_client("dynamodb", config=Config(retries={"mode": "standard", "total_max_attempts": 2}))
    client.meta.events.register("before-send", answer)  # type: ignore[arg-type] # an answer counts
    key: dict[str, Any] = {"Item": {}} if operation == "put_item" else {"Key": {}}

    if met < CONFLICT_ATTEMPTS:
        getattr(client, operation)(TableName="a-table", **key)
        assert not list(bodies)
    else:
        with pytest.raises(ClientError, match=CONFLICT):
            getattr(client, operation)(TableName="a-table", **key)


class Body:
    def stream(self) -> list[bytes]:
        return [b"{}"]


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "dynamodb": ("get_item", {"TableName": "a-table", "Key": {}}),
    "firehose": ("put_record_batch", {"DeliveryStreamName": "a-stream", "Records": [{"Data": b""}]}),
    "sqs": ("send_message", {"QueueUrl": "https://sqs.test/1/a-queue", "MessageBody": "a body"}),
}


@pytest.mark.parametrize("service", JSON_SERVICES)
def test_the_requests_of_a_session_s_clients_are_posts_to_the_root_with_a_short_user_agent(
    session: Session, service: str
) -> None:
    operation, arguments = CALLS[service]

    requests = sent_by(session, service, operation, **arguments)

    assert [(one.method, one.url.removeprefix("https://").partition("/")[2]) for one in requests] == [("POST", "")] * 2
    for one in requests:
        # Powertools, where it is imported, adds its own name.
        assert one.headers["User-Agent"].decode().startswith(session.user_agent())
        assert f"/{REGION}/{service}/aws4_request" in one.headers["Authorization"].decode()


@pytest.mark.parametrize("kind", ["service-2", "endpoint-rule-set-1"])
@pytest.mark.parametrize("service", [*JSON_SERVICES, "secretsmanager"])
def test_a_model_is_read_as_the_sdk_reads_it(service: str, kind: str) -> None:
    assert ModelLoader().load_service_model(service, kind) == Loader().load_service_model(service, kind)


def test_a_model_that_has_no_file_is_missing() -> None:
    with pytest.raises(DataNotFoundError):
        ModelLoader().load_service_model("sqs", "waiters-2")


def test_a_session_takes_its_credentials_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")

    assert credentials_of_a_session() == ("an-access-key", "a-secret", "a-token")


def test_a_session_looks_elsewhere_for_credentials_that_are_not_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_profiles = tmp_path / "credentials"
    of_profiles.write_text("[default]\naws_access_key_id = of-a-profile\naws_secret_access_key = a-secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(of_profiles))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)

    assert credentials_of_a_session() == ("of-a-profile", "a-secret", None)


def credentials_of_a_session() -> tuple[str, str, str | None]:
    session = get_session()
    prepare(session)
    found = session.get_credentials()
    assert found is not None
    return found.access_key, found.secret_key, found.token


def signer(client: Any) -> Any:
    """Nothing public says how a client signs."""
    return client._request_signer


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "mx-central-1", "cn-north-1", "us-gov-west-1"])
@pytest.mark.parametrize("service", [*JSON_SERVICES, "s3", "secretsmanager", "dynamodbstreams", "kms"])
def test_a_client_asks_where_and_signs_how_the_sdk_would_with_all_its_endpoints(
    session: Session, service: str, region: str
) -> None:
    bare = get_session()
    bare.set_credentials("an-access-key", "a-secret")
    ours, theirs = session.create_client(service, region), bare.create_client(service, region)

    assert ours.meta.endpoint_url == theirs.meta.endpoint_url
    assert ours.meta.partition == theirs.meta.partition
    signed = [(one.region_name, one.signing_name, one.signature_version) for one in map(signer, (ours, theirs))]
    assert signed[0] == signed[1]


@pytest.mark.parametrize("kinds", [{"FIPS"}, {"DUALSTACK"}, {"FIPS", "DUALSTACK"}])
@pytest.mark.parametrize("service", [*JSON_SERVICES, "s3", "secretsmanager"])
def test_a_client_asks_at_the_endpoints_that_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, service: str, kinds: set[str]
) -> None:
    for kind in kinds:
        monkeypatch.setenv(f"AWS_USE_{kind}_ENDPOINT", "true")
    lean, bare = get_session(), get_session()
    prepare(lean)
    ours, theirs = (one.create_client(service, "us-gov-west-1").meta.endpoint_url for one in (lean, bare))

    assert ours == theirs


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "cn-north-1"])
@pytest.mark.parametrize("account", [None, "123456789012"])
@pytest.mark.parametrize("service", JSON_SERVICES)
def test_each_call_goes_to_the_endpoint_that_the_sdk_would_resolve_for_it(
    service: str, account: str | None, region: str
) -> None:
    def made(session: Session) -> Any:
        session.set_credentials("an-access-key", "a-secret", account_id=account)
        return session.create_client(service, region)

    lean, bare = get_session(), get_session()
    prepare(lean)
    ours, theirs = made(lean), made(bare)
    operation, arguments = CALLS[service]
    name = ours.meta.method_to_api_mapping[operation]

    for _ in range(2):
        endpoints: list[object] = []
        contexts: list[dict[str, Any]] = []
        for client in (ours, theirs):
            context: dict[str, Any] = {"client_region": region}
            model = client.meta.service_model.operation_model(name)
            endpoints.append(client._resolve_endpoint_ruleset(model, arguments, context))
            contexts.append(context)
        assert endpoints[0] == endpoints[1]
        assert contexts[0] == contexts[1]
        contexts[0].setdefault("signing", {})["region"] = "what a caller makes of its own context"
