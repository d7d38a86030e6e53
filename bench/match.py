"""Match against its anchors, each a ratio within one run: `make bench-match`.

All are timed in short turns, and a ratio is the median of the turns' ratios, so that whatever else the machine does
hits both sides alike; the times are the best ones. The last line has all the figures. Ends with 1 if it takes too long to
see whether a message of XMTP is a subscriber's own.
"""

import gc
import hmac
import os
import subprocess
import sys
import timeit
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from time import process_time
from typing import Any, NamedTuple

import botocore.handlers
import sr25519
from moto import mock_aws

from bench.own_messages import MESSAGE_BYTES, MOST_MICROSECONDS, check
from bench.tape import Tape
from clarion.messages import EnvelopeMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import Proof, ProofKind, Statement, encode
from clarion.networks.statements.signature import sign
from clarion.networks.xmtp.rules import MAX_KEYS
from clarion.networks.xmtp.sender_hmac import KEY_SIZE_V3
from clarion.tables import PushRecord
from match.claims import ClaimRequest, Claims
from match.settings import MatchSettings
from match.verify import verify_envelope
from match.worker import MatchClients, MatchWorker
from tests.match import races
from tests.match.scene import PREFIX, InTurn, Scene, credentials, deploy, received

ROOT = Path(__file__).parent.parent
NOW = 1_800_000_000_000
TURNS = 200
CALLS = 40
NOTIFICATIONS = 100
REPLAYS = 10
RACES = 40
SDK = "import botocore.session; botocore.session.get_session().create_client('dynamodb')"
WORKER = (
    "import match.handler; from match.worker import MatchClients; MatchClients.make('x-');"
    "from clarion.networks import network; network('statements')"
)


class Work(NamedTuple):
    """A batch for a new worker each time, at one moment, so that its requests are the same each time."""

    settings: MatchSettings
    clients: MatchClients
    records: list[dict[str, Any]]
    tape: Tape

    def run(self) -> None:
        worker = MatchWorker.open(self.settings, self.clients, lambda: NOW)
        with redirect_stdout(StringIO()):
            unfinished = worker.handle(self.records)
        if unfinished:
            raise SystemExit(f"{len(unfinished)} messages unfinished")


def main() -> int:
    os.environ |= credentials() | {"POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    judged = judging()
    recognised = recognising()
    with mock_aws():
        work = record(deploy())
    own, whole = own_time(work)
    claimed = claiming()
    raced, flawed = racing()
    started = cold_start()
    print(
        f"match: judge {judged:.3f} of verify, own message {recognised:.1f} µs, own {own:.0f} µs a notification and "
        f"{whole:.0f} µs with the SDK, claim {claimed:.3f} of save, "
        f"cold start {started:.3f} of the SDK, {raced} races of which {flawed} flawed"
    )
    return int(recognised > MOST_MICROSECONDS)


def judging() -> float:
    """Decode, hash and verify; the aim is at most 1.15 of the bare verification."""
    pair = sr25519.pair_from_seed(b"a made-up sender".ljust(32))
    statement = sign(Statement(0xFFFF_FFFF << 32, (bytes(32), bytes([1] * 32)), bytes(600)), pair)
    raw, payload, proof = (
        encode(statement),
        statement.signing_payload,
        statement.proof or Proof(ProofKind.SR25519, b"", b""),
    )
    ratio, ours, bare = compare(
        lambda: verify_envelope(STATEMENTS, raw, NOW), lambda: sr25519.verify(proof.signature, payload, proof.signer)
    )
    print(f"judging a statement      {ours:7.1f} µs   {ratio:.3f} of sr25519.verify alone ({bare:.1f} µs; aim: 1.15)")
    return ratio


def recognising() -> float:
    """Whether a message of XMTP is the subscriber's own; more than the aim is a failure."""
    key, covered = bytes(KEY_SIZE_V3), bytes(MESSAGE_BYTES)
    ratio, ours, bare = compare(check(), lambda: [hmac.digest(key, covered, "sha256") for _ in range(MAX_KEYS)])
    aim = f"aim: {MOST_MICROSECONDS:.0f} µs"
    print(f"XMTP: is it one's own    {ours:7.1f} µs   {ratio:.3f} of three bare HMACs ({bare:.1f} µs; {aim})")
    return ours


def record(deployed: dict[str, str]) -> Work:
    """A batch of statements that are each delivered to one, and AWS's answers to match."""
    clients = replace(MatchClients.make(PREFIX), executor=InTurn())
    settings = MatchSettings.from_environment(deployed).model_copy(update={"fan_out_page": 250})
    bodies = [_deliverable(Scene(settings, clients)).to_json() for _ in range(NOTIFICATIONS)]
    tape = Tape(clients.dynamodb, clients.sqs, clients.firehose)
    work = Work(settings, clients, [received(str(number), body) for number, body in enumerate(bodies)], tape)
    work.run()
    return work


def _deliverable(scene: Scene) -> EnvelopeMessage:
    scene.subscribe()
    return scene.observe(scene.sender.states())


def own_time(work: Work) -> tuple[float, float]:
    """What match takes of the processor for a delivered notification: its own code, and with the SDK's without transport.

    The signature is included.
    """
    gc.freeze()  # else what the emulation has left would be looked through again and again
    best = [
        min(times) * 1e6 / NOTIFICATIONS for times in zip(*(_own_seconds(work) for _ in range(REPLAYS)), strict=True)
    ]
    own, whole = best
    print(f"own time outside the SDK {own:7.1f} µs   a delivered notification; with the SDK {whole:.1f} µs")
    return own, whole


def _own_seconds(work: Work) -> tuple[float, float]:
    work.tape.play()
    calls.spent = 0.0
    started = process_time()
    work.run()
    whole = process_time() - started
    return whole - calls.spent, whole


def claiming() -> float:
    """One conditional put without the network: as it is done here, and as pynamodb's `save` does it."""
    clients = MatchClients.make(PREFIX)
    claims = Claims(clients.dynamodb)
    clients.dynamodb.meta.events.register_first("before-call.dynamodb", answer)
    asked = ClaimRequest("s" * 36, bytes(32), receipt="r" * 36, claimed_at=1, ttl=1)
    record = PushRecord(**asked._asdict())
    free = PushRecord.receipt.does_not_exist() | (PushRecord.ttl <= 1) | (PushRecord.receipt == record.receipt)
    ratio, ours, theirs = compare(lambda: claims.take(asked), lambda: record.save(free))
    print(f"a claim, without the wait{ours:7.1f} µs   {ratio:.3f} of the same by pynamodb's save ({theirs:.1f} µs)")
    return ratio


def racing() -> tuple[int, int]:
    """Workers that race for a pair, and how many of the races went wrong; `make crash` runs two thousand."""
    started = process_time()
    flawed = sum(bool(race.flaws) for race in races.run(range(RACES)))
    print(f"a race for a pair        {(process_time() - started) * 1000 / RACES:7.1f} ms   {flawed} of {RACES} flawed")
    return RACES, flawed


def cold_start() -> float:
    """Importing the handler and a network, and making the clients, against the SDK's session and one client."""
    turns = [(_child_seconds(WORKER), _child_seconds(SDK)) for _ in range(7)]
    ours, bare = (min(times) * 1000 for times in zip(*turns, strict=True))
    ratio = median(one / other for one, other in turns)
    print(f"cold start               {ours:7.0f} ms   {ratio:.3f} of botocore and one client ({bare:.0f} ms)")
    return ratio


def compare(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float, float]:
    """The median ratio, and the best times in microseconds."""
    turns = [(_seconds(one), _seconds(other)) for _ in range(TURNS)]
    best = (min(times) / CALLS * 1e6 for times in zip(*turns, strict=True))
    return (median(a / b for a, b in turns), *best)


def _seconds(work: Callable[[], object]) -> float:
    """Of the processor's time: on a busy machine the clock on the wall would time the others as well."""
    return timeit.timeit(work, number=CALLS, timer=process_time)


def _child_seconds(code: str) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=_as_deployed())
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@cache
def _as_deployed() -> dict[str, str]:
    """A child's environment as `infra.functions` sets it, where all modules are compiled; see `infra.layers`."""
    deployed = {"PYTHONPYCACHEPREFIX": str(ROOT / ".build" / "bytecode"), "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | deployed
    for code in (WORKER, SDK):
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return environment


def answer(**_: object) -> Any:
    """Stands for DynamoDB's yes."""
    return Yes, {}


class Yes:
    status_code = 200


class Calls:
    """The processor's time spent in botocore."""

    spent = 0.0
    _since = 0.0

    def begin(self, **_: object) -> None:
        self._since = process_time()

    def end(self, **_: object) -> None:
        self.spent += process_time() - self._since


calls = Calls()
botocore.handlers.BUILTIN_HANDLERS += [("provide-client-params", calls.begin), ("after-call", calls.end)]

if __name__ == "__main__":
    sys.exit(main())
