"""What a task of the NTF server bears: `make bench-simplex`, beside a client that has a processor of its own.

    CONNECTIONS=1_000 SUBSCRIPTIONS=10 python -m bench.simplex

A task of production's size (docs/ntf.md) is filled with agents that stay, each of which subscribes to queues. Commands are
executed by a stand-in, which checks their signatures: what AWS takes is no matter of the task's. Ends with 1 beyond the bounds.
"""

import asyncio
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import ntf
from bench.figures import Figure, report
from bench.simplex_fuzz import Unauthorized
from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES, batch_blocks, batched, pad, unpad
from clarion.networks.simplex.encoding import Reader, items, short, word16
from clarion.networks.simplex.server_identity import ServerIdentity
from clarion.networks.simplex.transmissions import Transmission
from local.ports import reserved_port
from ntf.program import log_as_json, serve
from ntf.settings import NtfSettings
from ntf.task import assemble

CONNECTIONS = int(os.environ.get("CONNECTIONS", "1_000"))
SUBSCRIPTIONS = int(os.environ.get("SUBSCRIPTIONS", "10"))
AT_ONCE = 32
"""Agents that connect at the same time."""
MOST_MB, LEAST_HANDSHAKES = 300, 100
_PRIVATE = bytes.fromhex("302e020100300506032b657004220420")


def serve_here() -> None:
    """The program: its identity comes on its standard input."""
    log_as_json()
    identity = ServerIdentity.model_validate_json(sys.stdin.read())
    serve(assemble(NtfSettings.from_environment(), identity, Unauthorized()))


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    process: subprocess.Popen[str]

    @property
    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        (line,) = [line for line in status if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    @property
    def processor_s(self) -> float:
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(identity: ServerIdentity) -> Iterator[Server]:
    with reserved_port() as port, reserved_port() as health_port:
        bounds = {
            "connections_per_peer": 100_000,
            "handshakes_per_peer": 100_000,
            "connections_per_second": 1e6,
            "peer_commands_per_second": 1e6,
            "task_commands_per_second": 1e6,
        }
        settings = {
            **dict.fromkeys(("table_prefix", "command_queue_url", "events_stream", "late_events_queue_url"), "-"),
            "network": "simplex",
            "options": json.dumps({"hosts": ["ntf.clarion.example"], "app": "first"}),
            "host": "127.0.0.1",
            "port": str(port),
            "health_port": str(health_port),
            "bounds": json.dumps(bounds),
        }
        # OpenSSL reads it when it is loaded, so it has to be there at the start.
        variables = {
            "OPENSSL_CONF": str(Path(ntf.__file__).with_name("openssl.cnf")),
            **os.environ,
            **{f"CLARION_{name.upper()}": value for name, value in settings.items()},
        }
        command = [sys.executable, "-m", "bench.simplex", "serve"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, env=variables, text=True, **pipes) as process:  # type: ignore[call-overload]
            process.stdin.write(identity.text)
            process.stdin.close()
            if not any("listening" in line for line in process.stdout):
                raise RuntimeError("the server has not started")
            try:
                yield Server(port, process)
            finally:
                process.kill()


@dataclass(frozen=True, slots=True)
class BenchAgent:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    session_id: bytes
    key: Ed25519PrivateKey

    async def subscribe(self, number: int) -> None:
        """One SNEW, answered."""
        server = items([short(b"smp.example.org")]) + short(b"5223") + short(b"f" * 32)
        command = b"SNEW S" + short(b"t" * 24) + server + short(number.to_bytes(24)) + short(_PRIVATE + b"k" * 32)
        plain = Transmission(os.urandom(24), b"", command)
        signed = replace(plain, authorization=self.key.sign(plain.signed(self.session_id)))
        self.writer.write(next(iter(batch_blocks([signed.encoded], NTF_BLOCK_BYTES))))
        batched(await self.reader.readexactly(NTF_BLOCK_BYTES))


async def connected(port: int, context: ssl.SSLContext, identity: bytes) -> BenchAgent:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    hello = Reader(unpad(await reader.readexactly(NTF_BLOCK_BYTES)))
    for _ in ("the lowest version", "the highest"):
        hello.word16()
    writer.write(pad(word16(3) + short(identity), NTF_BLOCK_BYTES))
    return BenchAgent(reader, writer, hello.short(), Ed25519PrivateKey.generate())


@dataclass(frozen=True, slots=True)
class Borne:
    """What a task bore: agents that connect, each with a command, in a second; then commands in a second alone.

    `processor_ms` is of one such agent, `memory_mb` of the process with all of them.
    """

    agents: int
    handshakes_s: float
    processor_ms: float
    commands_s: float
    memory_mb: float

    @property
    def is_enough(self) -> bool:
        return self.memory_mb <= MOST_MB and self.handshakes_s >= LEAST_HANDSHAKES

    def figures(self) -> list[Figure]:
        agents = f"NTF server, {self.agents:,} agents"
        return [
            Figure.beside(
                f"{agents}: handshakes with a command each, beside the least",
                self.handshakes_s,
                LEAST_HANDSHAKES,
                "a second",
            ),
            Figure.beside(f"{agents}: memory, beside the most", self.memory_mb, MOST_MB, "MB"),
            Figure.alone(f"{agents}: processor time of a handshake with a command", self.processor_ms, "ms"),
            Figure.alone(f"{agents}: commands", self.commands_s, "commands/s"),
        ]


async def measure(server: Server, identity: bytes, connections: int, subscriptions: int) -> Borne:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["ntf/1"])
    several = asyncio.Semaphore(AT_ONCE)

    async def connect() -> BenchAgent:
        async with several:
            agent = await connected(server.port, context, identity)
            await agent.subscribe(0)
            return agent

    begun, used = time.monotonic(), server.processor_s
    agents = await asyncio.gather(*(connect() for _ in range(connections)))
    taken, used = time.monotonic() - begun, server.processor_s - used
    commands_s = await _subscribe(agents, subscriptions)
    borne = Borne(connections, connections / taken, used / connections * 1000, commands_s, server.resident_mb)
    for agent in agents:
        agent.writer.transport.abort()
    return borne


async def _subscribe(agents: Sequence[BenchAgent], subscriptions: int) -> float:
    """Commands a second."""
    begun = time.monotonic()
    for number in range(1, subscriptions):
        await asyncio.gather(*(agent.subscribe(number) for agent in agents))
    return len(agents) * (subscriptions - 1) / (time.monotonic() - begun)


def borne(connections: int, subscriptions: int) -> Borne:
    identity = ServerIdentity.generate(datetime.now(UTC))
    with running(identity) as server:
        return asyncio.run(measure(server, identity.fingerprint, connections, subscriptions))


def figures(connections: int = 1_000, subscriptions: int = 10) -> list[Figure]:
    return borne(connections, subscriptions).figures()


def main() -> int:
    if sys.argv[1:] == ["serve"]:
        serve_here()
        return 0
    measured = borne(CONNECTIONS, SUBSCRIPTIONS)
    report(measured.figures())
    return 0 if measured.is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
