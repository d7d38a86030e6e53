import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from local import tls
from local.provider import InjectedFault, Options
from local.webhook import STATUS, Webhook
from tests.standins import NOW

CLIENT = "c1" * 32


@pytest.fixture
async def webhook(localhost: tls.Localhost, clock: Any) -> AsyncIterator[Webhook]:
    async with Webhook(localhost.server_context(), options=Options(now=clock)) as webhook:
        yield webhook


@pytest.fixture
async def client(localhost: tls.Localhost) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        http2=True, http1=False, trust_env=False, verify=localhost.client_context(), timeout=60
    ) as client:
        yield client


def body_for(webhook: Webhook, trouble: InjectedFault | None = None) -> bytes:
    address = json.loads(webhook.install(trouble or InjectedFault()))
    mechanism = {"kind": "custom", "token": address["token"]}
    installation = {"id": address["installation_id"], "delivery_mechanism": mechanism}
    return json.dumps({"installation": installation}).encode()


def signatures_of(webhook: Webhook, content: bytes, at: float) -> str:
    """The last of two is right."""
    digest = hmac.new(webhook.signing_key, f"a-push.{int(at)}.".encode() + content, hashlib.sha256).digest()
    return f"v1,another v1,{base64.b64encode(digest).decode()}"


def headers_of(webhook: Webhook, body: bytes, at: float = NOW) -> dict[str, str]:
    return {
        "authorization": webhook.authorization,
        "content-type": "application/json",
        "webhook-id": "a-push",
        "webhook-timestamp": str(int(at)),
        "webhook-signature": signatures_of(webhook, body, at),
        "clarion-client": CLIENT,
        "clarion-client-signature": signatures_of(webhook, CLIENT.encode(), at),
    }


async def test_a_push_that_is_signed_is_taken(webhook: Webhook, client: httpx.AsyncClient) -> None:
    body = body_for(webhook)

    answer = await client.post(webhook.push_url, content=body, headers=headers_of(webhook, body))

    assert answer.status_code == 200
    (received,) = webhook.received
    assert (received.accepted, received.push_id, received.payload) == (True, "a-push", json.loads(body))
    assert "authorization" not in received.headers
    assert received.token not in repr(received).replace(str(received.payload), "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"authorization": "Bearer another"}, "BadAuthorization"),
        ({"authorization": ""}, "BadAuthorization"),
        ({"webhook-id": "another-push"}, "BadSignature"),
        ({"webhook-timestamp": str(int(NOW) + 1)}, "BadSignature"),
        ({"webhook-timestamp": ""}, "MissingSignature"),
        ({"webhook-signature": "v1,c2lnbmVk"}, "BadSignature"),
        ({"clarion-client": "d2" * 32}, "BadClientSignature"),
        ({"clarion-client": ""}, "MissingSignature"),
        ({"clarion-client-signature": "v1,c2lnbmVk"}, "BadClientSignature"),
        ({"clarion-client-signature": ""}, "MissingSignature"),
        ({"content-type": "text/plain"}, "BadContentType"),
    ],
)
async def test_what_is_not_from_who_holds_the_secret_is_refused(
    webhook: Webhook, client: httpx.AsyncClient, changes: dict[str, str], reason: str
) -> None:
    body = body_for(webhook)

    answer = await client.post(webhook.push_url, content=body, headers=headers_of(webhook, body) | changes)

    assert (answer.status_code, answer.json()["reason"]) == (STATUS[reason], reason)


async def test_a_push_that_does_not_say_whose_installation_it_is_for_is_refused(
    webhook: Webhook, client: httpx.AsyncClient
) -> None:
    content = json.loads(body_for(webhook))
    del content["installation"]["id"]
    body = json.dumps(content).encode()

    answer = await client.post(webhook.push_url, content=body, headers=headers_of(webhook, body))

    assert (answer.status_code, answer.json()["reason"]) == (400, "BadBody")


async def test_a_push_for_an_unknown_installation_is_answered_as_if_it_were_delivered(
    webhook: Webhook, client: httpx.AsyncClient
) -> None:
    content = json.loads(body_for(webhook))
    content["installation"]["delivery_mechanism"]["token"] = "another"
    body = json.dumps(content).encode()

    answer = await client.post(webhook.push_url, content=body, headers=headers_of(webhook, body))

    assert answer.status_code == 200
    assert [push.reason for push in webhook.received] == ["UnknownInstallation"]


@pytest.mark.parametrize("late", [-301, 301])
async def test_an_old_request_is_not_taken_again(webhook: Webhook, client: httpx.AsyncClient, late: int) -> None:
    body = body_for(webhook)

    answer = await client.post(webhook.push_url, content=body, headers=headers_of(webhook, body, NOW + late))

    assert answer.json()["reason"] == "BadTimestamp"


async def test_an_installation_meets_the_trouble_that_it_asks_for(webhook: Webhook, client: httpx.AsyncClient) -> None:
    body = body_for(webhook, InjectedFault("TooManyRequests", retry_after=7, times=1))
    headers = headers_of(webhook, body)

    first, second = [await client.post(webhook.push_url, content=body, headers=headers) for _ in range(2)]

    assert (first.status_code, first.headers["retry-after"], second.status_code) == (429, "7", 200)
