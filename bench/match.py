"""Match against its anchors, each a ratio within one run: `make bench-match`.

Ends with 1 if it takes too long to see whether a message of XMTP is a subscriber's own.
"""

import gc
import hmac
import os
import subprocess
import sys
from contextlib import redirect_stdout
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

from bench.figures import Figure, compare, report
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
OWN_MESSAGE = "see whether a message of XMTP is one's own, beside three bare HMACs"
SDK = "import botocore.session; botocore.session.get_session().create_client('dynamodb')"
WORKER = "from match import handler; handler._worker(); from clarion.networks import network; network('statements')"
READY = "; import os; os._exit(0)"
"""What Python does at its end is no part of a start."""


class Effort(NamedTuple):
    """How often each is measured: `turns` are those of the ratios, `starts` and `replays` those of the best times."""

    turns: int = 200
    notifications: int = 100
    replays: int = 10
    races: int = 40
    starts: int = 7


THOROUGH = Effort()


class RecordedWork(NamedTuple):
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


def figures(effort: Effort = THOROUGH) -> list[Figure]:
    os.environ |= credentials() | {"POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    judged = judging(effort.turns)
    recognised = recognising(effort.turns)
    with mock_aws():
        work = record(deploy(), effort.notifications)
    own = own_time(work, effort.replays)
    return [judged, recognised, *own, claiming(effort.turns), racing(effort.races), cold_start(effort.starts)]


def main() -> int:
    found = figures()
    report(found)
    return int(any(figure.name == OWN_MESSAGE and figure.ours > MOST_MICROSECONDS for figure in found))


def judging(turns: int) -> Figure:
    """Decode, hash and verify; the aim is at most 1.15 of the bare verification."""
    pair = sr25519.pair_from_seed(b"a made-up sender".ljust(32))
    statement = sign(Statement(0xFFFF_FFFF << 32, (bytes(32), bytes([1] * 32)), bytes(600)), pair)
    raw, payload, proof = (
        encode(statement),
        statement.signing_payload,
        statement.proof or Proof(ProofKind.SR25519, b"", b""),
    )
    return compare(
        "judge a statement, beside sr25519.verify",
        lambda: verify_envelope(STATEMENTS, raw, NOW),
        lambda: sr25519.verify(proof.signature, payload, proof.signer),
        turns,
    )


def recognising(turns: int) -> Figure:
    """More than `MOST_MICROSECONDS` is a failure."""
    key, covered = bytes(KEY_SIZE_V3), bytes(MESSAGE_BYTES)
    return compare(OWN_MESSAGE, check(), lambda: [hmac.digest(key, covered, "sha256") for _ in range(MAX_KEYS)], turns)


def record(deployed: dict[str, str], notifications: int) -> RecordedWork:
    """A batch of statements that are each delivered to one, and AWS's answers to match."""
    clients = MatchClients.make(PREFIX)._replace(executor=InTurn())
    settings = MatchSettings.from_environment(deployed).model_copy(update={"fan_out_page": 250})
    bodies = [_deliverable(Scene(settings, clients)).to_json() for _ in range(notifications)]
    tape = Tape(clients.dynamodb, clients.sqs, clients.firehose)
    work = RecordedWork(settings, clients, [received(str(number), body) for number, body in enumerate(bodies)], tape)
    work.run()
    return work


def _deliverable(scene: Scene) -> EnvelopeMessage:
    scene.subscribe()
    return scene.observe(scene.sender.states())


def own_time(work: RecordedWork, replays: int) -> list[Figure]:
    """What match takes of the processor for a delivered notification: its own code, and with the SDK's without transport.

    The signature is included.
    """
    gc.freeze()  # else what the emulation has left would be looked through again and again
    taken = zip(*(_own_seconds(work) for _ in range(replays)), strict=True)
    own, whole = (min(times) * 1e6 / len(work.records) for times in taken)
    return [
        Figure.alone("deliver a notification, outside the SDK", own, "µs"),
        Figure.alone("deliver a notification, with the SDK", whole, "µs"),
    ]


def _own_seconds(work: RecordedWork) -> tuple[float, float]:
    work.tape.play()
    calls.spent = 0.0
    started = process_time()
    work.run()
    whole = process_time() - started
    return whole - calls.spent, whole


def claiming(turns: int) -> Figure:
    """One conditional put without the network: as it is done here, and as pynamodb's `save` does it."""
    clients = MatchClients.make(PREFIX)
    claims = Claims(clients.dynamodb)
    clients.dynamodb.meta.events.register_first("before-call.dynamodb", answer)
    asked = ClaimRequest("s" * 36, bytes(32), receipt="r" * 36, claimed_at=1, ttl=1)
    record = PushRecord(**asked._asdict())
    free = PushRecord.receipt.does_not_exist() | (PushRecord.ttl <= 1) | (PushRecord.receipt == record.receipt)
    return compare(
        "claim a notification, beside pynamodb's save", lambda: claims.take(asked), lambda: record.save(free), turns
    )


def racing(count: int) -> Figure:
    """How many races of workers for a pair went wrong; `make crash` runs two thousand."""
    flawed = sum(bool(race.flaws) for race in races.run(range(count)))
    return Figure.beside("races for a pair that went wrong, beside all", flawed, count, "races")


def cold_start(turns: int) -> Figure:
    """Until the handler and a network are imported and the clients are made, against the SDK's session and one client."""
    taken = [(_child_seconds(WORKER + READY), _child_seconds(SDK + READY)) for _ in range(turns)]
    ours, bare = (min(times) * 1000 for times in zip(*taken, strict=True))
    ratio = median(one / other for one, other in taken)
    return Figure("start cold, beside botocore and one client", ours, bare, ratio, "ms")


def _child_seconds(code: str) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=_as_deployed())
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@cache
def _as_deployed() -> dict[str, str]:
    """A child's environment as `infra.functions` sets it, where all modules are compiled; see `infra.layers`."""
    # Settings are made up, for nothing is asked of AWS yet.
    needed = [name for name, field in MatchSettings.model_fields.items() if field.is_required()]
    deployed = {
        "PYTHONPYCACHEPREFIX": str(ROOT / ".build" / "bytecode"),
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
        **{f"CLARION_{name.upper()}": "made-up" for name in {*needed, "apns_queue_url"} - {"push_queues"}},
    }
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | deployed
    for code in (WORKER, SDK):
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return environment


def answer(**_: object) -> Any:
    """Success without content, as botocore has it from HTTP."""
    return EmptyAnswer, {}


class EmptyAnswer:
    status_code = 200


class SdkTime:
    """The processor's time spent in botocore."""

    spent = 0.0
    _since = 0.0

    def begin(self, **_: object) -> None:
        self._since = process_time()

    def end(self, **_: object) -> None:
        self.spent += process_time() - self._since


calls = SdkTime()
botocore.handlers.BUILTIN_HANDLERS += [("provide-client-params", calls.begin), ("after-call", calls.end)]

if __name__ == "__main__":
    sys.exit(main())
