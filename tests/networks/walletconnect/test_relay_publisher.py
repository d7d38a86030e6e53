"""The publisher against an HTTP server that answers as a test says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clarion import compact_json
from clarion.networks.walletconnect.relay import RelayClient, noop, publication
from clarion.networks.walletconnect.relay_publisher import ATTEMPTS, PublishOutcome, RelayPublisher, outcome_of
from clarion.providers.transport import Answer, Fault, Timeouts, Transport

TOPIC = "ab" * 32
PATIENT = Timeouts(connect=20, answer=20)


class Reply(NamedTuple):
    status: int
    content: dict[str, Any]


TAKEN = Reply(200, {"result": True})
BROKEN = Reply(503, {})


def refused(code: int, word: str, status: int = 200) -> Reply:
    return Reply(status, {"error": {"code": code, "message": "in words", "data": word}})


class Relay(ThreadingHTTPServer):
    """Gives its `replies`, by message, one after the other, and the last of them again and again."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: dict[str, list[Reply]] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.connections: set[Any] = set()

    def reply(self, message: str) -> Reply:
        replies = self.replies.get(message, [TAKEN])
        return replies.pop(0) if len(replies) > 1 else replies[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Relay

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, request))
        self.server.connections.add(self.client_address)
        status, content = self.server.reply(request["params"]["message"])
        body = compact_json.encode({"id": request["id"], "jsonrpc": "2.0"} | content)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def serving() -> Iterator[Relay]:
    relay = Relay()
    thread = Thread(target=relay.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield relay
    finally:
        relay.shutdown()
        thread.join()
        relay.server_close()


@pytest.fixture
def relay() -> Iterator[Relay]:
    with serving() as relay:
        yield relay


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def publisher(relay: Relay, pauses: list[float]) -> Iterator[RelayPublisher]:
    client = RelayClient(f"ws://127.0.0.1:{relay.server_port}", "1" * 32, Ed25519PrivateKey.generate())
    transport = Transport(timeouts=PATIENT)
    yield RelayPublisher(client, transport, sleep=pauses.append)
    transport.close()


def test_a_message_is_published_with_tag_and_ttl(relay: Relay, publisher: RelayPublisher) -> None:
    assert publisher.publish([publication(TOPIC, "AAAA", "notify_message")]) == [PublishOutcome.PUBLISHED]
    ((path, request),) = relay.requests
    assert request["method"] == "irn_publish"
    assert request["params"] == {"topic": TOPIC, "message": "AAAA", "ttl": 2_592_000, "tag": 4002, "prompt": True}
    assert len(str(request["id"])) == 19
    assert urlsplit(path).path == "/rpc"
    assert parse_qs(urlsplit(path).query)["projectId"] == ["1" * 32]


def test_all_are_published_at_once_over_kept_connections(relay: Relay, publisher: RelayPublisher) -> None:
    for _ in range(3):
        many = [noop(TOPIC, f"message {number}") for number in range(25)]
        assert publisher.publish(many) == [PublishOutcome.PUBLISHED] * 25
    assert len(relay.requests) == 75
    assert len(relay.connections) <= 4


def test_what_failed_is_tried_again_alone(relay: Relay, publisher: RelayPublisher, pauses: list[float]) -> None:
    relay.replies["second"] = [BROKEN, refused(3001, "TooManyRequests"), TAKEN]
    outcomes = publisher.publish([noop(TOPIC, "first"), noop(TOPIC, "second")])
    assert outcomes == [PublishOutcome.PUBLISHED] * 2
    assert sorted(request["params"]["message"] for _, request in relay.requests) == ["first"] + ["second"] * 3
    assert pauses[0] < pauses[1]


def test_a_relay_that_goes_on_failing_is_left_to_the_queue(relay: Relay, publisher: RelayPublisher) -> None:
    relay.replies["AAAA"] = [BROKEN]
    assert publisher.publish([noop(TOPIC, "AAAA")]) == [PublishOutcome.FAILED]
    assert len(relay.requests) == ATTEMPTS


def test_what_is_refused_for_good_is_not_tried_again(relay: Relay, publisher: RelayPublisher) -> None:
    relay.replies["AAAA"] = [refused(-32000, "TtlTooLong")]
    assert publisher.publish([noop(TOPIC, "AAAA")]) == [PublishOutcome.REFUSED]
    assert len(relay.requests) == 1


def test_a_relay_out_of_reach_is_left_to_the_queue(pauses: list[float]) -> None:
    with serving() as gone:
        client = RelayClient(f"ws://127.0.0.1:{gone.server_port}", "1" * 32, Ed25519PrivateKey.generate())
    publisher = RelayPublisher(client, Transport(timeouts=PATIENT), sleep=pauses.append)
    assert publisher.publish([noop(TOPIC, "AAAA")]) == [PublishOutcome.FAILED]
    assert len(pauses) == ATTEMPTS - 1


def test_nothing_is_published_for_nothing(relay: Relay, publisher: RelayPublisher) -> None:
    assert publisher.publish([]) == []
    assert not relay.requests


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (TAKEN, PublishOutcome.PUBLISHED),
        (refused(-32000, "MailboxLimitExceeded"), PublishOutcome.MAILBOX_FULL),
        (refused(-32000, "TtlTooShort"), PublishOutcome.REFUSED),
        (refused(-32600, "InvalidTopic"), PublishOutcome.REFUSED),
        (refused(-32600, "PayloadSizeExceeded", 413), PublishOutcome.REFUSED),
        (refused(3000, "InvalidJwt", 401), PublishOutcome.FAILED),
        (refused(3001, "TooManyRequests", 429), PublishOutcome.FAILED),
        (refused(-32603, "StorageError", 500), PublishOutcome.FAILED),
        (Reply(200, {"result": False}), PublishOutcome.FAILED),
        (Reply(400, {}), PublishOutcome.REFUSED),
        (Reply(404, {}), PublishOutcome.FAILED),
    ],
)
def test_what_each_answer_means(reply: Reply, expected: PublishOutcome) -> None:
    outcome, reason = outcome_of(Answer(reply.status, compact_json.encode({"id": 1, "jsonrpc": "2.0"} | reply.content)))
    assert outcome is expected
    assert reason is not None or reply is TAKEN


def test_no_answer_may_be_one_later() -> None:
    assert outcome_of(Fault(7, "not connected")) == (PublishOutcome.FAILED, "not connected")


def test_the_log_holds_neither_token_nor_message(
    relay: Relay, publisher: RelayPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    relay.replies["c2VjcmV0"] = [refused(-32600, "eyJhbGciOiJFZERTQSJ9.e30.c2ln")]
    publisher.publish([noop(TOPIC, "c2VjcmV0")])
    logged = str([vars(record) for record in caplog.records])
    assert "refused" in logged
    assert "eyJ" not in logged
    assert "c2VjcmV0" not in logged
