import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from api.jwks import FETCH_SECONDS, KEEP_SECONDS, MOST_BACKOFF, STALE_SECONDS, KeysUnavailable, PublicKeys, fetch

KEY = ec.generate_private_key(ec.SECP256R1())


def jwks(*names: str) -> bytes:
    jwk: dict[str, Any] = jwt.get_algorithm_by_name("ES256").to_jwk(KEY.public_key(), as_dict=True)
    return json.dumps({"keys": [jwk | {"kid": name, "use": "sig", "alg": "ES256"} for name in names]}).encode()


def token(name: str) -> str:
    return jwt.encode({}, KEY, algorithm="ES256", headers={"kid": name})


class Endpoint:
    """Answers with `body`, or not at all."""

    def __init__(self, *names: str) -> None:
        self.body: bytes | None = jwks(*names)
        self.asked = 0

    def __call__(self) -> bytes:
        self.asked += 1
        if self.body is None:
            raise KeysUnavailable
        return self.body


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_keys_are_fetched_once_and_again_when_they_are_old(clock: Clock) -> None:
    endpoint = Endpoint("a", "b")
    keys = PublicKeys(endpoint, clock)
    for name in ("a", "b", "a"):
        assert keys(token(name)).key_id == name
    assert endpoint.asked == 1
    clock.now += KEEP_SECONDS
    keys(token("a"))
    assert endpoint.asked == 2


def test_forged_key_ids_are_asked_for_twice_a_minute_and_a_new_key_is_found(clock: Clock) -> None:
    endpoint = Endpoint("a")
    keys = PublicKeys(endpoint, clock)
    for number in range(60):
        with pytest.raises(jwt.PyJWKClientError):
            keys(token(f"forged-{number}"))
        clock.now += 1
    assert endpoint.asked == 2
    endpoint.body = jwks("a", "b")
    clock.now += 30
    assert keys(token("b")).key_id == "b"


def test_an_endpoint_that_fails_is_left_alone_ever_longer(clock: Clock) -> None:
    endpoint = Endpoint()
    endpoint.body = None
    keys = PublicKeys(endpoint, clock)
    for _ in range(600):
        with pytest.raises(KeysUnavailable):
            keys(token("a"))
        clock.now += 1
    assert endpoint.asked == 7 + (600 - 64) // MOST_BACKOFF
    endpoint.body = jwks("a")
    clock.now += MOST_BACKOFF
    assert keys(token("a")).key_id == "a"


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[]", b'{"keys": []}', b'{"keys": 7}', b"[" * 100_000])
def test_what_is_no_set_of_keys_counts_as_a_failure(clock: Clock, body: bytes) -> None:
    endpoint = Endpoint()
    endpoint.body = body
    keys = PublicKeys(endpoint, clock)
    for _ in range(3):
        with pytest.raises(KeysUnavailable):
            keys(token("a"))
    assert endpoint.asked == 1


def test_known_keys_serve_for_an_hour_without_their_endpoint(clock: Clock) -> None:
    endpoint = Endpoint("a")
    keys = PublicKeys(endpoint, clock)
    keys(token("a"))
    endpoint.body = None
    clock.now += STALE_SECONDS
    assert keys(token("a")).key_id == "a"
    with pytest.raises(KeysUnavailable):
        keys(token("new"))
    clock.now += 1
    with pytest.raises(KeysUnavailable):
        keys(token("a"))


def test_several_threads_fetch_once(clock: Clock) -> None:
    endpoint = Endpoint("a")
    keys = PublicKeys(endpoint, clock)
    with ThreadPoolExecutor(8) as pool:
        assert {key.key_id for key in pool.map(keys, [token("a")] * 50)} == {"a"}
    assert endpoint.asked == 1


@pytest.fixture(params=["says nothing", "drips"])
def hanging(request: pytest.FixtureRequest) -> Iterator[str]:
    """An endpoint that takes the connection and never comes to an end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = False

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                if request.param == "drips":
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while not done:
                    time.sleep(0.1)
                    if request.param == "drips":
                        with suppress(OSError):
                            connection.sendall(b" ")

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/jwks"
        done = True
        thread.join()


def test_an_endpoint_that_hangs_is_waited_for_only_so_long_and_only_once(hanging: str, clock: Clock) -> None:
    asked: list[float] = []

    def ask() -> bytes:
        asked.append(time.monotonic())
        return fetch(hanging)

    keys = PublicKeys(ask, clock)
    for _ in range(20):
        with pytest.raises(KeysUnavailable):
            keys(token("a"))
    [begun] = asked
    # libcurl goes by another clock, and a busy machine is late.
    assert FETCH_SECONDS - 0.1 < time.monotonic() - begun < 60


def test_an_address_that_nobody_answers_at_has_no_keys() -> None:
    with pytest.raises(KeysUnavailable):
        fetch("http://127.0.0.1:1/jwks")
