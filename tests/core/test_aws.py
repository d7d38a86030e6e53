from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.session import Session, get_session
from hypothesis import given
from hypothesis import strategies as st

from clarion.aws import CONFLICT, CONFLICT_ATTEMPTS, JSON_SERVICES, PostAuth, prepare

SERVICE, REGION = "dynamodb", "eu-central-1"
words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


def request_of(body: bytes = b"{}", *, host: str = "dynamodb.test", values: tuple[str, ...] = ()) -> AWSRequest:
    names = ("X-Amz-Target", "Content-Type", "User-Agent", "X-Amzn-Trace-Id")
    return AWSRequest(method="POST", url=f"https://{host}/", headers=dict(zip(names, values, strict=False)), data=body)


def signed(request: AWSRequest, credentials: Credentials) -> str:
    PostAuth(credentials, SERVICE, REGION).add_auth(request)
    return str(request.headers["Authorization"])


def signed_by_the_sdk(request: AWSRequest, credentials: Credentials) -> str:
    """What the SDK makes of the same request at the same second."""
    authorization = request.headers["Authorization"]
    del request.headers["Authorization"]
    reference = SigV4Auth(credentials, SERVICE, REGION)
    request.context["timestamp"] = request.headers["X-Amz-Date"]
    text = reference.string_to_sign(request, reference.canonical_request(request))
    names = reference.signed_headers(reference.headers_to_sign(request))
    request.headers["Authorization"] = authorization
    signature = reference.signature(text, request)
    return f"AWS4-HMAC-SHA256 Credential={reference.scope(request)}, SignedHeaders={names}, Signature={signature}"


@given(
    st.binary(min_size=1),
    st.tuples(words, words, words, words),
    st.builds(Credentials, words, words, st.none() | words),
    st.sampled_from(["dynamodb.test", "127.0.0.1:4566", "[::1]:4566"]),
)
def test_a_signature_is_the_sdk_s_own(
    body: bytes, values: tuple[str, ...], credentials: Credentials, host: str
) -> None:
    request = request_of(body, host=host, values=values)

    assert signed(request, credentials) == signed_by_the_sdk(request, credentials)


def test_a_request_that_is_tried_again_is_signed_anew_with_the_credentials_of_that_time() -> None:
    request = request_of()
    signed(request, Credentials("first", "secret", "token"))

    later = Credentials("second", "secret", "another token")
    again = signed(request, later)

    assert again == signed_by_the_sdk(request, later)
    assert request.headers.get_all("Authorization") == [again]
    assert request.headers.get_all("X-Amz-Security-Token") == ["another token"]
    assert len(request.headers.get_all("X-Amz-Date", [])) == 1


def test_nothing_is_signed_without_credentials() -> None:
    with pytest.raises(NoCredentialsError):
        PostAuth(None, SERVICE, REGION).add_auth(request_of())


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
def test_a_write_that_meets_transactions_is_tried_again_for_a_while(session: Session, operation: str, met: int) -> None:
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
