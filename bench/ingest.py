"""How fast ingest takes in what a node shows, on one core, as a ratio to parsing the same frames' JSON alone."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence

from clarion.statement import Proof, ProofKind, Statement, encode
from ingest.intake import Intake
from ingest.outbox import Outbox
from ingest.protocol import Shown, read
from ingest.settings import FirstReplay

FRAMES = 20_000
DATA_BYTES = 300


def frame() -> str:
    proof = Proof(ProofKind.SR25519, os.urandom(64), os.urandom(32))
    topics = (os.urandom(32), os.urandom(32))
    raw = encode(Statement(2**63, topics, os.urandom(DATA_BYTES), os.urandom(32), proof=proof))
    result = {"event": "newStatements", "data": {"statements": ["0x" + raw.hex()]}}
    return json.dumps({"jsonrpc": "2.0", "method": "statement_statement", "params": {"result": result}})


def per_second(work: Callable[[str], object], frames: Sequence[str]) -> float:
    start = time.perf_counter()
    for text in frames:
        work(text)
    return len(frames) / (time.perf_counter() - start)


def main() -> None:
    intake = Intake(Outbox(1 << 40), Counter(), FirstReplay.RECORD)

    def take(text: str) -> None:
        shown = read(text)
        if isinstance(shown, Shown):
            intake.take_now(shown, first_replay=False)

    frames = [frame() for _ in range(FRAMES)]
    json_alone = per_second(json.loads, frames)
    whole = per_second(take, frames)
    print(
        f"intake {whole:,.0f} statements/s, {json_alone / whole:.1f} times the cost of JSON alone ({json_alone:,.0f}/s)"
    )


if __name__ == "__main__":
    main()
