"""The server as a process, with the configuration of OpenSSL that it has in production."""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from clarion.networks.simplex.addresses import ntf_address
from clarion.networks.simplex.server_identity import ServerIdentity
from local.ports import reserved_port
from tests.ntf.agent import Answer, TlsAgent, tls_context

OPTIONS = json.dumps({"hosts": ["ntf.clarion.example"], "app": "first"})
PAGE = Path(__file__).parents[2] / "docs" / "ntf.md"
TLS_1_3 = ssl.TLSVersion.TLSv1_3


@dataclass(frozen=True)
class Program:
    port: int
    health_port: int
    process: subprocess.Popen[str]

    def until_logged(self, message: str) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if json.loads(line).get("message") == message:
                return
        raise AssertionError(f"it has ended before {message!r}")

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def running(identity: ServerIdentity) -> Iterator[Program]:
    with reserved_port() as port, reserved_port() as health_port:
        settings = {
            "network": "simplex",
            "table_prefix": "-",
            "options": OPTIONS,
            "command_queue_url": "-",
            "events_stream": "-",
            "late_events_queue_url": "-",
            "host": "127.0.0.1",
            "port": str(port),
            "health_port": str(health_port),
        }
        variables = {**os.environ, **{f"CLARION_{name.upper()}": value for name, value in settings.items()}}
        command = [sys.executable, "-m", "tests.ntf.program"]
        with subprocess.Popen(
            command, env=variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            try:
                assert process.stdin
                process.stdin.write(identity.text)
                process.stdin.close()
                program = Program(port, health_port, process)
                program.until_logged("listening")
                yield program
            finally:
                process.kill()


@pytest.fixture(scope="module")
def program(identity: ServerIdentity) -> Iterator[Program]:
    with running(identity) as one:
        yield one


def tls_1_3(curve: str | None = None) -> ssl.SSLContext:
    context = tls_context(version=TLS_1_3)
    if curve:
        context.set_ecdh_curve(curve)
    return context


@pytest.mark.parametrize(
    ("version", "suite", "id_bytes"),
    [(TLS_1_3, "TLS_CHACHA20_POLY1305_SHA256", 32), (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-CHACHA20-POLY1305", 12)],
)
def test_both_versions_of_tls_are_spoken_by_chacha20_alone(
    program: Program, version: ssl.TLSVersion, suite: str, id_bytes: int
) -> None:
    agent = TlsAgent(program.port, context=tls_context(version=version))
    try:
        cipher = agent.socket.cipher()
        assert cipher
        assert cipher[0] == suite
        assert agent.hello.session_id == agent.binding
        assert len(agent.hello.session_id) == id_bytes
        assert agent.socket.selected_alpn_protocol() == "ntf/1"
        assert not agent.socket.session_reused
        agent.server_key()
        command = agent.transmission(b"TCHK", correlation=b"c", entity=b"e")
        assert agent.ask(command) == [Answer(b"c", b"e", b"TKN ACTIVE")]
    finally:
        agent.close()


def test_the_probe_of_the_page_shows_the_fingerprint_that_the_address_has(
    program: Program, identity: ServerIdentity
) -> None:
    (command,) = re.findall(r"```bash\n(openssl s_client.*?)```", PAGE.read_text(), re.DOTALL)
    assert "ntf.example.org:443" in command
    here = command.replace("ntf.example.org:443", f"127.0.0.1:{program.port}")
    shown = subprocess.run(["/bin/bash", "-c", here], capture_output=True, text=True, check=True, timeout=120).stdout
    assert ntf_address(identity.fingerprint, ["ntf.example.org"]) == f"ntf://{shown.strip()}@ntf.example.org"


def test_an_agent_that_offers_x448_first_is_asked_for_x25519(program: Program) -> None:
    with pytest.raises(ssl.SSLError):
        TlsAgent(program.port, context=tls_1_3("X448"))
    TlsAgent(program.port, context=tls_1_3("X25519")).close()


@pytest.mark.parametrize(
    "context",
    [
        tls_1_3("prime256v1"),
        tls_1_3("ffdhe2048"),
        tls_context(ciphers="DHE"),
        tls_context(ciphers="ECDHE-ECDSA-AES256-GCM-SHA384"),
        tls_context(ciphers="AES256-SHA256"),
    ],
    ids=["P-256", "finite fields", "DHE", "AES", "RSA"],
)
def test_nothing_else_is_spoken(program: Program, context: ssl.SSLContext) -> None:
    with pytest.raises(ssl.SSLError):
        TlsAgent(program.port, context=context)


def test_no_session_of_tls_is_resumed(program: Program) -> None:
    context = tls_context()
    first = TlsAgent(program.port, context=context)
    first.close()
    assert not first.socket.session or not first.socket.session.has_ticket
    second = TlsAgent(program.port, context=context)
    second.close()
    assert first.hello.session_id != second.hello.session_id


def test_it_is_healthy_while_it_listens_and_ends_well_on_sigterm(identity: ServerIdentity) -> None:
    with running(identity) as program:
        with urlopen(f"http://127.0.0.1:{program.health_port}/", timeout=60) as answer:
            assert answer.status == 200
        agent = TlsAgent(program.port, context=tls_1_3())
        assert agent.ask(agent.ping(b"c")) == [Answer(b"c", b"", b"PONG")]
        program.process.send_signal(signal.SIGTERM)
        assert agent.is_closed()
        agent.close()
        assert program.process.wait(60) == 0


def test_without_the_configuration_that_prefers_our_suite_it_does_not_start(identity: ServerIdentity) -> None:
    program = (
        "import sys, types; from datetime import UTC, datetime\n"
        "from clarion.networks.simplex.server_identity import ServerIdentity\n"
        "from ntf.program import serve\n"
        "from ntf.tls import server_context\n"
        "context = server_context(ServerIdentity.generate(datetime.now(UTC)))\n"
        "serve(types.SimpleNamespace(service=types.SimpleNamespace(context=context)))\n"
    )
    variables = {name: value for name, value in os.environ.items() if name != "OPENSSL_CONF"}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=False, timeout=120
    )
    assert "SuitesError" in ended.stderr
