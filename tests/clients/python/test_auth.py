"""What signing in takes from the request that needs the token, and leaves to it."""

import httpx
import pytest

from clarion_client import Client, Problem, SignIn

URL, DOMAIN = "https://push.example.org", "push.example.org"
CHALLENGE = httpx.Response(201, json={"challenge": "c", "message": "another message than the client's own"})
SIGNED_IN = httpx.Response(201, json={"token": "t", "token_type": "Bearer", "expires_in": 3600})
BUSY = httpx.Response(503, headers={"Retry-After": "0"})
EMPTY = httpx.Response(200, json=[])


class Script:
    """A deployment that answers so, one after the other, and what it was asked."""

    def __init__(self, *answers: httpx.Response) -> None:
        self._answers = iter(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return next(self._answers)


def listed(script: Script, signed: list[bytes]) -> object:
    def sign(text: bytes) -> bytes:
        signed.append(text)
        return b"s" * 64

    auth, transport = SignIn(b"k" * 32, DOMAIN, sign), httpx.MockTransport(script)
    with httpx.Client(base_url=URL, auth=auth, transport=transport, timeout=7) as http:
        return Client(http).list_subscriptions()


def test_a_login_that_is_too_busy_is_repeated() -> None:
    script = Script(BUSY, CHALLENGE, BUSY, CHALLENGE, SIGNED_IN, EMPTY)
    assert listed(script, []) == []
    assert script.requests[-1].headers["Authorization"] == "Bearer t"


def test_a_login_that_is_refused_is_the_answer() -> None:
    with pytest.raises(Problem) as refused:
        listed(Script(httpx.Response(404)), [])
    assert refused.value.status == 404


def test_what_is_signed_is_the_clients_own_message() -> None:
    signed: list[bytes] = []
    listed(Script(CHALLENGE, SIGNED_IN, EMPTY), signed)
    assert signed == [f"<Bytes>clarion login v1\ndomain: {DOMAIN}\nclient: {'6b' * 32}\nchallenge: c</Bytes>".encode()]


def test_signing_in_has_the_host_and_the_timeouts_of_the_request() -> None:
    script = Script(CHALLENGE, SIGNED_IN, EMPTY)
    listed(script, [])
    assert {request.headers["Host"] for request in script.requests} == {DOMAIN}
    assert {request.extensions["timeout"]["read"] for request in script.requests} == {7}
