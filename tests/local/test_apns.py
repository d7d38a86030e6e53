import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from local import keys, tls
from local.apns import Apns
from local.apns_trouble import REASONS, trouble_of, troubled_token
from local.http2 import Misbehaviour
from local.ports import reserved_port
from local.provider import InjectedFault, Options

PATIENCE_S = 60
"""What a busy machine may take."""
BUNDLE = "io.pcf.polkadotapp"
TOKEN = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
ALERT = {"aps": {"alert": {"title": "Polkadot App"}, "mutable-content": 1}}
HEADERS = {"apns-topic": BUNDLE, "apns-push-type": "alert", "apns-priority": "10"}

type Sign = Callable[..., str]


@pytest.fixture
def sign(apns_key: keys.ApnsKeyPair, clock: Any) -> Sign:
    """Mints a provider token, right unless an argument makes it wrong."""

    def sign(
        *, age: float = 0, key: keys.ApnsKeyPair = apns_key, key_id: str = keys.KEY_ID, team: str = keys.TEAM_ID
    ) -> str:
        claims = {"iss": team, "iat": int(clock() - age)}
        return jwt.encode(claims, key.private_key, algorithm="ES256", headers={"kid": key_id})

    return sign


@asynccontextmanager
async def client_of(stand_in: Apns, localhost: tls.Localhost) -> AsyncIterator[httpx.AsyncClient]:
    context = localhost.client_context()
    async with httpx.AsyncClient(
        base_url=stand_in.url, http2=True, http1=False, trust_env=False, verify=context, timeout=PATIENCE_S
    ) as client:
        yield client


@pytest.fixture
async def apns(localhost: tls.Localhost, apns_key: keys.ApnsKeyPair, clock: Any) -> AsyncIterator[Apns]:
    context = localhost.server_context()
    with reserved_port() as port:
        async with Apns(context, known=[apns_key], topics=[BUNDLE], options=Options(port=port, now=clock)) as apns:
            yield apns


@pytest.fixture
async def client(apns: Apns, localhost: tls.Localhost, sign: Sign) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(apns, localhost) as client:
        client.headers["authorization"] = f"bearer {sign()}"
        yield client


async def push(client: httpx.AsyncClient, token: str = TOKEN, body: Any = ALERT, **headers: str) -> httpx.Response:
    wanted = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(f"/3/device/{token}", json=body, headers=wanted)


def verdict(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["reason"]


async def test_an_alert_is_accepted_over_http2_and_recorded(apns: Apns, client: httpx.AsyncClient) -> None:
    push_id = str(uuid.uuid4())
    response = await push(client, apns_id=push_id)
    assert (response.http_version, response.status_code, response.content) == ("HTTP/2", 200, b"")
    assert response.headers["apns-id"] == push_id
    [received] = apns.received
    assert received.accepted
    assert (received.token, received.payload, received.push_id) == (TOKEN, ALERT, push_id)
    assert received.headers.items() >= HEADERS.items()
    assert "authorization" not in received.headers
    assert TOKEN not in repr(received)


async def test_a_push_without_id_is_given_one(client: httpx.AsyncClient) -> None:
    uuid.UUID((await push(client)).headers["apns-id"])


async def test_a_call_is_accepted_on_the_voip_topic(client: httpx.AsyncClient) -> None:
    headers = {"apns_topic": f"{BUNDLE}.voip", "apns_push_type": "voip", "apns_expiration": "0"}
    assert (await push(client, body={"aps": {}}, **headers)).status_code == 200


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"apns_id": str(uuid.UUID(bytes=b"\xab" * 16)).upper()}, "BadMessageId"),
        ({"apns_id": "1"}, "BadMessageId"),
        ({"apns_expiration": "soon"}, "BadExpirationDate"),
        ({"apns_push_type": "whisper"}, "InvalidPushType"),
        ({"apns_priority": "9"}, "BadPriority"),
        ({"apns_push_type": "background", "apns_priority": "10"}, "BadPriority"),
        ({"apns_collapse_id": "x" * 65}, "BadCollapseId"),
        ({"apns_topic": "com.example.other"}, "TopicDisallowed"),
        ({"apns_topic": f"{BUNDLE}.voip"}, "BadTopic"),
        ({"apns_push_type": "voip"}, "BadTopic"),
    ],
)
async def test_a_wrong_header_is_refused(client: httpx.AsyncClient, headers: dict[str, str], reason: str) -> None:
    assert verdict(await push(client, **headers)) == (400, reason)


@pytest.mark.parametrize(
    "headers",
    [
        {"apns_collapse_id": "x" * 64},
        {"apns_push_type": "background", "apns_priority": "5"},
        {"apns_priority": "1"},
        {"apns_expiration": "1800000060"},
    ],
)
async def test_a_right_header_is_accepted(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await push(client, **headers)).status_code == 200


async def test_a_push_needs_a_topic(client: httpx.AsyncClient) -> None:
    assert verdict(await client.post(f"/3/device/{TOKEN}", json=ALERT)) == (400, "MissingTopic")


async def test_a_header_given_twice_is_refused(client: httpx.AsyncClient) -> None:
    headers = [*HEADERS.items(), ("apns-priority", "5")]
    assert verdict(await client.post(f"/3/device/{TOKEN}", json=ALERT, headers=headers)) == (400, "DuplicateHeaders")


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", f"/3/device/{TOKEN}", (405, "MethodNotAllowed")),
        ("POST", f"/2/device/{TOKEN}", (404, "BadPath")),
        ("POST", "/3/device/", (400, "MissingDeviceToken")),
        ("POST", "/3/device/nothex", (400, "BadDeviceToken")),
        ("POST", f"/3/device/{TOKEN[:62]}", (400, "BadDeviceToken")),
    ],
)
async def test_a_wrong_method_path_or_token_is_refused(
    client: httpx.AsyncClient, method: str, path: str, expected: tuple[int, str]
) -> None:
    assert verdict(await client.request(method, path, headers=HEADERS)) == expected


def payload_of(size: int) -> bytes:
    return b'{"aps":{},"x":"' + b"x" * (size - 17) + b'"}'


@pytest.mark.parametrize(("push_type", "topic", "limit"), [("alert", BUNDLE, 4096), ("voip", f"{BUNDLE}.voip", 5120)])
async def test_a_payload_one_byte_too_large_is_refused(
    client: httpx.AsyncClient, push_type: str, topic: str, limit: int
) -> None:
    headers = {"apns-topic": topic, "apns-push-type": push_type}
    responses = [
        await client.post(f"/3/device/{TOKEN}", content=payload_of(size), headers=headers)
        for size in (limit, limit + 1)
    ]
    assert responses[0].status_code == 200
    assert verdict(responses[1]) == (413, "PayloadTooLarge")


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"aps":[]}', b"\xff"])
async def test_a_payload_without_an_aps_dictionary_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post(f"/3/device/{TOKEN}", content=body, headers=HEADERS)
    assert verdict(response) == (400, "PayloadEmpty")


async def test_a_provider_token_is_needed(client: httpx.AsyncClient) -> None:
    del client.headers["authorization"]
    assert verdict(await push(client)) == (403, "MissingProviderToken")


async def test_a_provider_token_that_is_wrong_is_refused(client: httpx.AsyncClient, sign: Sign) -> None:
    wrong = {
        "not a token": "x",
        "signed by another key": sign(key=keys.generate_apns_key()),
        "of an unknown key id": sign(key_id="OTHERKEY00"),
        "of another team": sign(team="OTHERTEAM0"),
        "of the future": sign(age=-120),
    }
    for what, token in wrong.items():
        assert verdict(await push(client, authorization=f"bearer {token}")) == (403, "InvalidProviderToken"), what


async def test_a_provider_token_older_than_an_hour_has_expired(
    client: httpx.AsyncClient, sign: Sign, clock: Any
) -> None:
    assert verdict(await push(client, authorization=f"bearer {sign(age=3601)}")) == (403, "ExpiredProviderToken")
    assert (await push(client)).status_code == 200
    clock.advance(3600)
    assert (await push(client)).status_code == 200
    clock.advance(1)
    assert verdict(await push(client)) == (403, "ExpiredProviderToken")


async def test_a_second_provider_token_within_twenty_minutes_is_too_many(
    client: httpx.AsyncClient, sign: Sign, clock: Any
) -> None:
    assert (await push(client)).status_code == 200
    clock.advance(1199)
    renewed = f"bearer {sign()}"
    assert verdict(await push(client, authorization=renewed)) == (429, "TooManyProviderTokenUpdates")
    assert (await push(client)).status_code == 200
    clock.advance(1)
    assert (await push(client, authorization=renewed)).status_code == 200
    assert (await push(client)).status_code == 200  # a worker that has not yet changed over


@pytest.mark.parametrize(
    ("status", "nth", "reason"),
    [(status, nth, reason) for status, reasons in REASONS.items() for nth, reason in enumerate(reasons, 1)],
)
async def test_a_device_can_ask_for_any_reason(client: httpx.AsyncClient, status: int, nth: int, reason: str) -> None:
    token = troubled_token(InjectedFault(failure=reason))
    assert token.startswith(f"dead{status}{nth:02}")
    assert verdict(await push(client, token)) == (status, reason)


async def test_a_dead_token_says_since_when_in_milliseconds(client: httpx.AsyncClient, clock: Any) -> None:
    response = await push(client, troubled_token(InjectedFault(failure="Unregistered", ago=90)))
    assert response.json()["timestamp"] == (clock() - 90) * 1000


async def test_a_device_can_ask_for_trouble_that_passes(client: httpx.AsyncClient) -> None:
    token = troubled_token(InjectedFault(failure="ServiceUnavailable", retry_after=30, times=2))
    responses = [await push(client, token) for _ in range(3)]
    assert [response.status_code for response in responses] == [503, 503, 200]
    assert [response.headers.get("retry-after") for response in responses] == ["30", "30", None]


@pytest.mark.parametrize(
    "trouble",
    [
        InjectedFault(),
        InjectedFault(delay=0.25),
        InjectedFault(failure="ExpiredToken", ago=3600),
        InjectedFault(failure=Misbehaviour.SILENCE),
        InjectedFault(failure="TooManyRequests", delay=1.5, retry_after=120, times=3),
    ],
)
def test_a_token_says_which_trouble_it_was_made_for(trouble: InjectedFault) -> None:
    assert trouble_of(troubled_token(trouble, device=7)) == trouble
    assert len({troubled_token(trouble, device) for device in range(100)}) == 100


async def test_a_delayed_answer_holds_up_no_other(client: httpx.AsyncClient, apns: Apns) -> None:
    await push(client)
    slow = asyncio.create_task(push(client, troubled_token(InjectedFault(delay=9.9))))
    await apns.received.until(2)
    assert (await push(client)).status_code == 200
    assert not slow.done()
    slow.cancel()


async def test_a_delayed_answer_comes_in_the_end(client: httpx.AsyncClient) -> None:
    begun = time.monotonic()
    assert (await push(client, troubled_token(InjectedFault(delay=0.2)))).status_code == 200
    assert time.monotonic() - begun >= 0.2


async def test_a_reset_connection_fails_the_push(client: httpx.AsyncClient, apns: Apns) -> None:
    with pytest.raises(httpx.TransportError):
        await push(client, troubled_token(InjectedFault(failure=Misbehaviour.RESET_CONNECTION)))
    assert (await push(client)).status_code == 200
    assert [received.status for received in apns.received] == [0, 200]


async def test_a_reset_stream_fails_the_push_and_spares_the_connection(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await push(client, troubled_token(InjectedFault(failure=Misbehaviour.RESET_STREAM)))
    assert (await push(client)).status_code == 200


async def test_goaway_fails_the_push_and_the_next_connects_anew(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.RemoteProtocolError, match=b'"Shutdown"'.hex()):
        await push(client, troubled_token(InjectedFault(failure=Misbehaviour.GO_AWAY)))
    assert (await push(client)).status_code == 200


async def test_silence_is_for_the_client_to_end(client: httpx.AsyncClient) -> None:
    with pytest.raises(httpx.ReadTimeout):
        await client.post(
            f"/3/device/{troubled_token(InjectedFault(failure=Misbehaviour.SILENCE))}",
            json=ALERT,
            headers=HEADERS,
            timeout=httpx.Timeout(PATIENCE_S, read=0.1),
        )


async def test_another_process_can_read_what_came(client: httpx.AsyncClient, apns: Apns) -> None:
    for device in range(3):
        await push(client, f"{device:064x}")
    content = (await client.get("/_stand-in/received?since=1")).json()
    assert [entry["token"] for entry in content["pushes"]] == [f"{device:064x}" for device in (1, 2)]
    assert content["next"] == 3
    assert (await client.get("/_stand-in/received?since=3")).json() == {"pushes": [], "next": 3}


async def test_a_journal_larger_than_any_window_arrives_whole(client: httpx.AsyncClient) -> None:
    for _ in range(40):
        await client.post(f"/3/device/{TOKEN}", content=payload_of(4096), headers=HEADERS)
    content = (await client.get("/_stand-in/received")).json()
    assert len(content["pushes"]) == 40
    assert len(content["pushes"][-1]["payload"]["x"]) == 4096 - 17


async def test_it_comes_back_on_the_port_it_had(apns: Apns, client: httpx.AsyncClient) -> None:
    await push(client)
    await apns.__aexit__()
    with pytest.raises(httpx.TransportError):
        await push(client)
    await apns.__aenter__()
    assert (await push(client)).status_code == 200


async def test_a_client_that_speaks_no_http2_is_turned_away(apns: Apns, localhost: tls.Localhost) -> None:
    async with httpx.AsyncClient(
        base_url=apns.url, trust_env=False, verify=localhost.client_context(), timeout=PATIENCE_S
    ) as client:
        with pytest.raises(httpx.TransportError):
            await client.get("/_stand-in/received")


async def test_a_client_that_does_not_know_the_authority_refuses_to_talk(apns: Apns) -> None:
    async with httpx.AsyncClient(base_url=apns.url, http2=True, trust_env=False, timeout=PATIENCE_S) as client:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get("/_stand-in/received")


def test_as_a_program_it_takes_the_generated_keys(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "local.keys", tmp_path], check=True)
    arguments = [sys.executable, "-m", "local.apns", "--keys", str(tmp_path), "--topic", BUNDLE]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        url = program.stdout.readline().strip()
        key = keys.load_apns_key(tmp_path)
        claims = {"iss": key.team_id, "iat": int(time.time())}
        token = jwt.encode(claims, key.private_key, algorithm="ES256", headers={"kid": key.key_id})
        context = tls.Localhost.within(tmp_path).client_context()
        with httpx.Client(base_url=url, http2=True, trust_env=False, verify=context, timeout=PATIENCE_S) as client:
            headers = HEADERS | {"authorization": f"bearer {token}"}
            assert client.post(f"/3/device/{TOKEN}", json=ALERT, headers=headers).status_code == 200
        program.terminate()
        assert program.wait(PATIENCE_S) == 0
