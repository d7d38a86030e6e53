import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from local import keys, tls
from local.fcm import ERRORS, SCOPE, Fcm
from local.provider import Options

PATIENCE_S = 60
"""What a busy machine may take."""
TOKEN = "cXJ5:APA91bHun4MxP5egoKMwt2KZFBaFUH"
DATA = {"statement_data": "00ff", "statement_topic": "aa" * 32, "sender_pubkey": "bb" * 32, "notify_type": "alert"}
SEND = f"/v1/projects/{keys.PROJECT_ID}/messages:send"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"

type Sign = Callable[..., str]


@pytest.fixture
async def fcm(localhost: tls.Localhost, account: keys.ServiceAccount, clock: Any) -> AsyncIterator[Fcm]:
    async with Fcm(localhost.server_context(), account=account, options=Options(now=clock)) as fcm:
        yield fcm


@pytest.fixture
def sign(fcm: Fcm, account: keys.ServiceAccount, clock: Any) -> Sign:
    """Signs an assertion, right unless an argument makes it wrong."""

    def sign(*, key: keys.ServiceAccount = account, **changes: Any) -> str:
        claims = {
            "iss": account.client_email,
            "scope": SCOPE,
            "aud": fcm.token_uri,
            "iat": int(clock()),
            "exp": int(clock()) + 3600,
        }
        return jwt.encode(claims | changes, key.private_key, algorithm="RS256")

    return sign


async def exchange(client: httpx.AsyncClient, assertion: str, grant_type: str = GRANT_TYPE) -> httpx.Response:
    return await client.post("/token", data={"grant_type": grant_type, "assertion": assertion})


@pytest.fixture
async def client(fcm: Fcm, localhost: tls.Localhost, sign: Sign) -> AsyncIterator[httpx.AsyncClient]:
    context = localhost.client_context()
    async with httpx.AsyncClient(
        base_url=fcm.url, http2=True, http1=False, trust_env=False, verify=context, timeout=PATIENCE_S
    ) as client:
        access_token = (await exchange(client, sign())).json()["access_token"]
        client.headers["authorization"] = f"Bearer {access_token}"
        yield client


def message(**changes: Any) -> dict[str, Any]:
    return {"message": {"token": TOKEN, "data": DATA, "android": {"priority": "HIGH"}} | changes}


def error_code(response: httpx.Response) -> str | None:
    details = response.json()["error"]["details"]
    return next((detail["errorCode"] for detail in details if "errorCode" in detail), None)


async def test_an_assertion_is_exchanged_for_an_access_token(client: httpx.AsyncClient, sign: Sign) -> None:
    response = await exchange(client, sign())
    assert response.status_code == 200
    assert response.json().items() >= {"expires_in": 3599, "token_type": "Bearer"}.items()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"iss": "somebody@else.example"}, "invalid_grant"),
        ({"aud": "https://oauth2.googleapis.com/token"}, "invalid_grant"),
        ({"iat": 1_799_996_000, "exp": 1_799_999_600}, "invalid_grant"),
        ({"exp": 1_800_003_601}, "invalid_grant"),
        ({"iat": 1_800_000_061}, "invalid_grant"),
        ({"exp": "later"}, "invalid_grant"),
        ({"scope": "https://www.googleapis.com/auth/drive"}, "invalid_scope"),
    ],
)
async def test_a_wrong_assertion_is_refused(
    client: httpx.AsyncClient, sign: Sign, changes: dict[str, Any], error: str
) -> None:
    response = await exchange(client, sign(**changes))
    assert (response.status_code, response.json()["error"]) == (400, error)


async def test_an_assertion_must_be_signed_by_the_account(client: httpx.AsyncClient, sign: Sign) -> None:
    response = await exchange(client, sign(key=keys.generate_service_account()))
    assert (response.status_code, response.json()["error"]) == (400, "invalid_grant")


async def test_only_assertions_are_exchanged(client: httpx.AsyncClient, sign: Sign) -> None:
    response = await exchange(client, sign(), grant_type="authorization_code")
    assert (response.status_code, response.json()["error"]) == (400, "unsupported_grant_type")


async def test_a_message_is_accepted_and_recorded(fcm: Fcm, client: httpx.AsyncClient) -> None:
    response = await client.post(SEND, json=message())
    assert (response.http_version, response.status_code) == ("HTTP/2", 200)
    assert response.json()["name"].startswith(f"projects/{keys.PROJECT_ID}/messages/")
    [received] = fcm.received
    assert received.accepted
    assert (received.token, received.payload, received.push_id) == (TOKEN, message(), response.json()["name"])


@pytest.mark.parametrize(
    "content",
    [
        {"message": {"fid": "a-firebase-installation"}},
        message(android={"priority": "high", "ttl": "60s", "collapseKey": "k"}),
        message(android={"priority": "NORMAL", "ttl": "3.5s", "collapse_key": "k"}),
        message(apns={"headers": {"apns-priority": "5"}, "payload": {"aps": {"content-available": 1}}}),
        message(webpush={"notification": {"title": "News"}}),
        message(data={"x": "y" * 4095}),
        message() | {"validateOnly": True},
    ],
)
async def test_a_right_message_is_accepted(client: httpx.AsyncClient, content: dict[str, Any]) -> None:
    assert (await client.post(SEND, json=content)).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"message": {"data": DATA}},
        {"message": {"token": ""}},
        message(fid="a-firebase-installation"),
        message(data={"count": 1}),
        message(data={"nested": {}}),
        message(data={"x": "y" * 4096}),
        message(data={"from": "me"}),
        message(data={"message_type": "x"}),
        message(data={"google.x": "y"}),
        message(data={"gcm.x": "y"}),
        message(android={"priority": "urgent"}),
        message(android={"ttl": "60"}),
        message(android={"ttl": 60}),
        message(android={"ttl": "2419201s"}),
        message(android={"color": "red"}),
        message(apns={"headers": {"apns-priority": 5}, "payload": {"aps": {}}}),
        message(apns={"payload": {"topic": "elsewhere"}}),
        message(webpush={"title": "News"}),
        message(sound="loud"),
    ],
)
async def test_a_wrong_message_is_refused(fcm: Fcm, client: httpx.AsyncClient, content: Any) -> None:
    response = await client.post(SEND, json=content)
    assert (response.status_code, error_code(response)) == (400, "INVALID_ARGUMENT")
    assert response.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert [received.accepted for received in fcm.received] == [False]


async def test_what_is_no_json_is_refused(client: httpx.AsyncClient) -> None:
    assert (await client.post(SEND, content=b"\xff{")).status_code == 400


async def test_an_access_token_is_needed_and_expires(client: httpx.AsyncClient, clock: Any) -> None:
    clock.advance(3598)
    assert (await client.post(SEND, json=message())).status_code == 200
    clock.advance(1)
    response = await client.post(SEND, json=message())
    assert (response.status_code, response.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    del client.headers["authorization"]
    assert (await client.post(SEND, json=message())).status_code == 401


async def test_another_project_is_forbidden(client: httpx.AsyncClient) -> None:
    response = await client.post("/v1/projects/another/messages:send", json=message())
    assert (response.status_code, response.json()["error"]["status"]) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize(("method", "path"), [("GET", SEND), ("POST", "/batch"), ("GET", "/token")])
async def test_there_is_nothing_elsewhere(client: httpx.AsyncClient, method: str, path: str) -> None:
    assert (await client.request(method, path)).status_code == 404


@pytest.mark.parametrize("code", ERRORS)
async def test_a_device_can_ask_for_any_error(client: httpx.AsyncClient, code: str) -> None:
    response = await client.post(SEND, json=message(token=f"{code}-{TOKEN}"))
    status, canonical = ERRORS[code]
    assert (response.status_code, error_code(response)) == (status, code)
    assert response.json()["error"].items() >= {"code": status, "status": canonical}.items()


async def test_a_device_can_ask_for_trouble_that_passes(client: httpx.AsyncClient) -> None:
    content = message(token=f"DELAY10-UNAVAILABLE-AFTER30-TIMES1-{TOKEN}")
    responses = [await client.post(SEND, json=content) for _ in range(2)]
    assert [response.status_code for response in responses] == [503, 200]
    assert [response.headers.get("retry-after") for response in responses] == ["30", None]


@pytest.mark.parametrize("word", ["RESET", "GOAWAY", "RST_STREAM"])
async def test_a_device_can_ask_for_a_broken_connection(client: httpx.AsyncClient, word: str) -> None:
    with pytest.raises(httpx.TransportError):
        await client.post(SEND, json=message(token=f"{word}-{TOKEN}"))
    assert (await client.post(SEND, json=message())).status_code == 200


def test_as_a_program_it_writes_the_service_account_that_it_honours(tmp_path: Path) -> None:
    keys.generate(tmp_path)
    arguments = [sys.executable, "-m", "local.fcm", "--keys", str(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        program.stdout.readline()
        account = json.loads((tmp_path / "service-account.json").read_text())
        now = int(time.time())
        claims = {"iss": account["client_email"], "scope": SCOPE, "aud": account["token_uri"]}
        assertion = jwt.encode(claims | {"iat": now, "exp": now + 3600}, account["private_key"], algorithm="RS256")
        context = tls.Localhost.within(tmp_path).client_context()
        with httpx.Client(http2=True, trust_env=False, verify=context, timeout=PATIENCE_S) as client:
            form = {"grant_type": GRANT_TYPE, "assertion": assertion}
            assert client.post(account["token_uri"], data=form).status_code == 200
        program.terminate()
        assert program.wait(PATIENCE_S) == 0


async def test_a_malformed_token_is_refused_in_googles_words(fcm: Fcm, client: httpx.AsyncClient) -> None:
    response = await client.post(SEND, json=message(token="INVALID_ARGUMENT-device"))
    error = response.json()["error"]
    assert error == {
        "code": 400,
        "message": "The registration token is not a valid FCM registration token",
        "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "INVALID_ARGUMENT"}],
    }


@pytest.mark.parametrize(("token", "status"), [(TOKEN, 200), ("UNREGISTERED-device", 404)])
async def test_what_is_only_to_be_validated_is_judged_and_not_received(
    fcm: Fcm, client: httpx.AsyncClient, token: str, status: int
) -> None:
    response = await client.post(SEND, json=message(token=token) | {"validateOnly": True})
    assert response.status_code == status
    assert len(fcm.received) == 0
