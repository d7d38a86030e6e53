"""Key servers: which are asked, how, and for how long their word is kept."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from clarion.providers.transport import Timeouts, Transport
from local import tls
from tests.walletconnect import Wallet
from tests.walletconnect_worker.stage import KEY_SERVER, NOW, OPTIONS, Stage
from walletconnect.key_server import KeyServerClient, KeyServerUnavailable
from walletconnect.refusals import NotServed

WEEK = 7 * 86_400


def identify(stage: Stage, wallet: Wallet, ksu: str = KEY_SERVER, now: int = NOW) -> str:
    subject = wallet.subject
    return stage.worker.relay_commands.key_servers.identify(
        wallet.identity_public_key, ksu, subject=subject, now=now
    ).account


def test_a_key_server_is_asked_by_https_at_a_public_address(stage: Stage) -> None:
    wallet = stage.phone().wallet
    assert identify(stage, wallet) == wallet.account
    [request] = stage.key_servers.requests
    assert request.url == f"{KEY_SERVER}/identity?publicKey={wallet.identity_public_key}"
    assert (request.public, request.body) == (True, None)


def test_its_word_is_kept_for_a_week(stage: Stage) -> None:
    wallet = stage.phone().wallet
    for now in (NOW, NOW + WEEK - 1):
        identify(stage, wallet, now=now)
    assert len(stage.key_servers.requests) == 1
    identify(stage, wallet, now=NOW + WEEK)
    assert len(stage.key_servers.requests) == 2


def test_a_cacao_that_has_run_out_is_refused_from_then_on(stage: Stage) -> None:
    wallet = stage.phone().wallet
    stage.key_servers.register(wallet, exp="2027-01-15T08:00:01Z")
    identify(stage, wallet)
    with pytest.raises(NotServed, match="invalid_identity"):
        identify(stage, wallet, now=NOW + 1)


def test_a_cacao_that_has_run_out_is_asked_for_again(stage: Stage) -> None:
    wallet = stage.phone().wallet
    stage.key_servers.register(wallet, exp="2027-01-15T08:00:01Z")
    identify(stage, wallet)
    stage.key_servers.register(wallet)
    for _ in range(2):
        assert identify(stage, wallet, now=NOW + 1) == wallet.account
    assert len(stage.key_servers.requests) == 2


def test_what_is_refused_is_not_kept(stage: Stage) -> None:
    wallet = stage.phone().wallet
    stage.key_servers.register(wallet, statement="I agree to anything")
    with pytest.raises(NotServed, match="invalid_identity"):
        identify(stage, wallet)
    stage.key_servers.register(wallet)
    assert identify(stage, wallet) == wallet.account


def test_one_server_s_word_is_not_another_s(stage: Stage) -> None:
    wallet = stage.phone().wallet
    identify(stage, wallet)
    identify(stage, wallet, f"{KEY_SERVER}/")
    assert len(stage.key_servers.requests) == 2


@pytest.mark.parametrize(
    "ksu",
    [
        "http://keys.example.com",
        "https://keys.example.com:8443",
        "https://keys.example.com.evil.example.com",
        "https://user@keys.example.com",
        "https://keys.example.com/other",
        "https://keys.example.com?x",
        "https://KEYS.example.com",
        "https://169.254.169.254",
        "",
    ],
)
def test_no_other_server_is_asked(stage: Stage, ksu: str) -> None:
    wallet = stage.phone().wallet
    with pytest.raises(NotServed, match="unknown_key_server"):
        identify(stage, wallet, ksu)
    assert stage.key_servers.requests == []


@pytest.mark.parametrize(("status", "refused"), [(404, True), (302, True), (400, True), (429, False), (500, False)])
def test_only_what_may_pass_is_asked_for_again(stage: Stage, status: int, refused: bool) -> None:
    wallet = stage.phone().wallet
    stage.key_servers.status = status
    with pytest.raises(NotServed if refused else KeyServerUnavailable):
        identify(stage, wallet)


class Handler(BaseHTTPRequestHandler):
    """Sends every GET somewhere else."""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("location", "https://keys.example.com/identity")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext) -> Iterator[int]:
    """The port."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def ask(stage: Stage, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A real server with a private address; `{port}` in the URL is its port."""
    localhost = tls.issue(tmp_path)
    transport = Transport(str(localhost.ca_file), Timeouts(connect=60, answer=60))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(localhost.certificate_file)
    with served(Handler, context) as port:
        wallet = stage.phone().wallet
        yield (
            lambda ksu: (
                KeyServerClient(transport, OPTIONS)
                .identify(wallet.identity_public_key, ksu.format(port=port), subject=wallet.subject, now=NOW)
                .account
            )
        )
    transport.close()


def test_a_redirect_is_not_followed(ask: Callable[[str], str]) -> None:
    with pytest.raises(NotServed, match="unknown_identity"):
        ask("https://localhost:{port}")


def test_a_server_on_the_list_is_not_asked_at_a_private_address(stage: Stage, tmp_path: Path) -> None:
    """`localhost` is one that anybody may name here, but not one that may have such an address."""
    localhost, wallet = tls.issue(tmp_path), stage.phone().wallet
    options = OPTIONS.model_copy(update={"key_servers": ("localhost",), "private_key_servers": ()})
    transport = Transport(str(localhost.ca_file), Timeouts(connect=60, answer=60))
    with pytest.raises(KeyServerUnavailable, match="not connected"):
        KeyServerClient(transport, options).identify(
            wallet.identity_public_key, "https://localhost", subject=wallet.subject, now=NOW
        )
    transport.close()
