"""What one core can do: the intake of statements, the candidate filter, the set of seen envelopes.

python -m bench.ingest        RULES=10_000_000 SEEN=4_000_000

Ends with 1 if more memory or time is taken than it may, in proportion to RULES and SEEN.
"""

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import Proof, ProofKind, Statement, encode
from clarion.networks.statements.rules import key_of
from clarion.tables import rule_key
from ingest.delivery.outbox import Budget, Outbox
from ingest.delivery.outgoing import Outgoing
from ingest.filter.candidates import CandidateFilter
from ingest.filter.fingerprints import of_key
from ingest.intake import Intake
from ingest.memory.seen import SeenEnvelopes
from ingest.memory.unmatched import UnmatchedBuffer
from ingest.sources.feed import Feed
from ingest.sources.statements.protocol import Shown, read
from ingest.sources.statements.source import SOURCE_SPEC

RULES = int(os.environ.get("RULES", "10_000_000"))
SEEN = int(os.environ.get("SEEN", "4_000_000"))
FRAMES = 20_000
LOOKUPS = 500_000
DATA_BYTES = 300
AMPLE = 1 << 40
FILTER_BYTES = 300e6 / 10_000_000
SEEN_BYTES = 200e6 / 4_000_000
FEWEST_LOOKUPS = 200_000
LONGEST_HOLD = 0.1
"""Seconds for which saving may hold the stream."""


class TooDearError(Exception):
    """Something takes more than it may; the text has the figures."""


def within(figures: str, *, holds: bool) -> str:
    if not holds:
        raise TooDearError(figures)
    return figures


def resident_megabytes() -> float:
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def frame(sender: bytes) -> str:
    """A statement of 550 bytes as it is shown live, alone."""
    proof = Proof(ProofKind.SR25519, os.urandom(64), sender)
    topics = (os.urandom(32), os.urandom(32))
    raw = encode(Statement(2**63, topics, os.urandom(DATA_BYTES), os.urandom(32), proof=proof))
    result = {"event": "newStatements", "data": {"statements": ["0x" + raw.hex()]}}
    return json.dumps({"jsonrpc": "2.0", "method": "statement_statement", "params": {"result": result}})


def per_second[T](work: Callable[[T], object], inputs: Sequence[T]) -> float:
    """By CPU time, so that other programs on the machine don't count."""
    start = time.process_time()
    for one in inputs:
        work(one)
    return len(inputs) / (time.process_time() - start)


def random_rule_keys(count: int) -> Iterable[bytes]:
    for _ in range(count):
        yield rule_key(1, key_of(os.urandom(32), os.urandom(32)))


def measure_filter(candidates: CandidateFilter) -> str:
    before = resident_megabytes()
    candidates.add(random_rule_keys(RULES))
    megabytes = resident_megabytes() - before
    named = [(os.urandom(32), os.urandom(32)) for _ in range(LOOKUPS)]
    rate = per_second(lambda pair: candidates.match_any([of_key(key_of(*pair))]), named)
    figures = f"filter: {RULES:,} rules in {megabytes:.0f} MB, {rate:,.0f} look-ups/s"
    return within(figures, holds=megabytes * 1e6 <= FILTER_BYTES * RULES and rate >= FEWEST_LOOKUPS)


def measure_intake(candidates: CandidateFilter) -> str:
    """Unmatched traffic, which is most of it, through JSON, hash, seen set, decoding and filter."""
    seen = SeenEnvelopes(SEEN)
    intake = Intake(
        seen=seen,
        candidates=candidates,
        unmatched=UnmatchedBuffer(AMPLE),
        outbox=Outbox[Outgoing](to="nobody", budget=Budget(AMPLE), most=1, linger=0, taken=print, is_open=False),
        counts=Counter(),
        rule_lag_ms=0,
    )
    feed = Feed(1, STATEMENTS, SOURCE_SPEC)

    async def take_all(frames: Sequence[bytes]) -> None:
        for each in frames:
            shown = read(each)
            if isinstance(shown, Shown):
                await intake.take(shown.statements, feed)

    sender = os.urandom(32)
    frames = [frame(sender).encode() for _ in range(FRAMES)]
    json_alone = per_second(json.loads, frames)
    whole = FRAMES * per_second(lambda all_of_them: asyncio.run(take_all(all_of_them)), [frames])
    return f"intake: {whole:,.0f} statements/s, {json_alone / whole:.1f} times the cost of parsing their JSON"


def measure_seen() -> str:
    return asyncio.run(_measure_seen())


async def _measure_seen() -> str:
    before = resident_megabytes()
    seen = SeenEnvelopes(2 * SEEN)
    for _ in range(SEEN):
        statement = int.from_bytes(os.urandom(8), signed=True) or 1
        seen.refresh(statement)
        seen.add(statement, 1)
        seen.handled(statement)
    seen.saved(seen.delta())
    megabytes = resident_megabytes() - before
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - start)

    watching = asyncio.create_task(watch())
    start = time.perf_counter()
    snapshot = await seen.snapshot()
    seconds = time.perf_counter() - start
    watching.cancel()
    figures = (
        f"seen: {SEEN:,} in {megabytes:.0f} MB, {len(snapshot) / 1e6:.0f} MB saved in {seconds:.1f} s"
        f" with the stream held for {longest * 1000:.0f} ms at most"
    )
    return within(figures, holds=megabytes * 1e6 <= SEEN_BYTES * SEEN and longest <= LONGEST_HOLD)


def measure_candidates() -> list[str]:
    candidates = CandidateFilter()
    return [measure_filter(candidates), measure_intake(candidates)]


def main() -> None:
    figures = []
    # A fresh process each, so that one's memory isn't the other's.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        figures += processes.submit(measure_candidates).result()
        figures.append(processes.submit(measure_seen).result())
    print(" | ".join(figures))


if __name__ == "__main__":
    main()
