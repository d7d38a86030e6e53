import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError
from hypothesis import given
from hypothesis import strategies as st

from clarion.signature import PostAuth

SERVICE, REGION = "dynamodb", "eu-central-1"
HOSTS = ("dynamodb.test", "DynamoDB.test:443", "dynamodb.test:80", "127.0.0.1:4566", "[::1]", "[::1]:4566")
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
    st.sampled_from(HOSTS),
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


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("GET", "https://dynamodb.test/"),
        ("POST", "https://dynamodb.test/service/DynamoDB/operation/GetItem"),
        ("POST", "https://dynamodb.test/?of=another"),
    ],
)
def test_what_is_no_plain_post_is_signed_by_the_sdk(method: str, url: str) -> None:
    credentials = Credentials("an-access-key", "a-secret")
    request = AWSRequest(method=method, url=url, headers={}, data=b"{}")

    assert signed(request, credentials) == signed_by_the_sdk(request, credentials)


def test_a_body_that_is_no_bytes_is_signed_by_the_sdk() -> None:
    request = AWSRequest(method="POST", url="https://dynamodb.test/", headers={}, data={"a": "form"})
    credentials = Credentials("an-access-key", "a-secret")

    assert signed(request, credentials) == signed_by_the_sdk(request, credentials)
