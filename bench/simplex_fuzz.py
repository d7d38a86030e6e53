"""The NTF server's reading, fed with mutated blocks: `make fuzz-simplex` takes a million of them.

    BLOCKS=1_000_000 SEED=7 python -m bench.simplex_fuzz

Whatever a block holds, it has to be answered in whole blocks, by a reply for each of its transmissions, and leave nothing
behind. Ends with 1 if it isn't so.
"""

import asyncio
import gc
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nacl.public import PrivateKey

from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES, batch_blocks, pad
from clarion.networks.simplex.credentials import authorize, dh_der
from clarion.networks.simplex.encoding import MalformedSimplex, items, short, word16
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.handshakes import NTF_VERSIONS, agreed_version
from clarion.networks.simplex.ntf import PONG, NtfReply, NtfRequest, NtfSession, refusal, reply_blocks, requests
from clarion.networks.simplex.transmissions import Transmission
from ntf.block_executor import BlockExecutor
from ntf.bounds import Peer
from ntf.pace import Pace
from ntf.settings import NtfBounds

BLOCKS = int(os.environ.get("BLOCKS", "1_000_000"))
SEED = int(os.environ.get("SEED", "7"))
MOST_GROWTH = 16 << 20
"""Bytes that the process has more at the end than after the first blocks."""
EXECUTED = 20
"""Of so many blocks, the commands of two are executed on threads, with their signatures checked."""
MOST_ANSWER = 16
"""Blocks for one."""
IDENTITY = b"i" * 32
SESSION_KEY = PrivateKey(b"s" * 32)
OWNER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
PEER = Peer.of("192.0.2.1", NtfBounds(registrations_per_hour=1e12, registrations_at_once=1_000_000))
"""Of all blocks."""
_ED25519, _ED25519_PRIVATE = (
    bytes.fromhex("302a300506032b6570032100"),
    bytes.fromhex("302e020100300506032b657004220420"),
)


class FuzzError(AssertionError):
    """A block did what none may do."""


@dataclass(frozen=True, slots=True)
class Unauthorized:
    """Checks each authorization, and lets none pass."""

    def execute(self, request: NtfRequest) -> bytes:
        request.is_authorized_by(None)
        return refusal(ErrorType.AUTH)


def commands() -> Sequence[tuple[bytes, bytes]]:
    """One of each, with its entity."""
    token, entity = short(b"d" * 32), b"e" * 24
    owner = short(_ED25519 + OWNER.public_key().public_bytes_raw())
    server = items([short(b"smp.example.org"), short(b"example.onion")]) + short(b"5223") + short(b"f" * 32)
    queue = server + short(b"n" * 24)
    return [
        (b"TNEW TAP" + token + owner + short(dh_der(SESSION_KEY.public_key)), b""),
        (b"TVFY " + short(b"c" * 32), entity),
        (b"TCHK", entity),
        (b"TRPL AP" + token, entity),
        (b"TDEL", entity),
        (b"TCRN " + word16(20), entity),
        (b"SNEW S" + short(entity) + queue + short(_ED25519_PRIVATE + b"k" * 32), b""),
        (b"SCHK", entity),
        (b"SDEL", entity),
        (b"PING", b""),
    ]


def valid_blocks(session: NtfSession) -> Sequence[bytes]:
    """Of one command each, and one of several."""
    signed = [_signed(command, entity, session) for command, entity in commands()]
    if not session.has_batches:
        return [pad(one, NTF_BLOCK_BYTES) for one in signed]
    several = [one for one in signed if len(one) < 130][:4]
    return [next(iter(batch_blocks(each, NTF_BLOCK_BYTES))) for each in (*([one] for one in signed), several)]


def _signed(command: bytes, entity: bytes, session: NtfSession) -> bytes:
    named = None if session.has_batches else session.id
    plain = Transmission(b"c" * 24, entity, command, session_id=named)
    if command == b"PING":
        return plain.encoded
    authorization = authorize(plain.signed(session.id), b"c" * 24, OWNER, SESSION_KEY.public_key)
    return replace(plain, authorization=authorization).encoded


def mutated(blocks: Sequence[bytes], chance: random.Random) -> Iterator[bytes]:
    """Endlessly. Most changes lie where the block has content; now and then nothing is left of a valid block."""
    while True:
        block = bytearray(chance.choice(blocks))
        for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
            _mutate(block, chance)
        yield bytes(block[:NTF_BLOCK_BYTES].ljust(NTF_BLOCK_BYTES, b"#"))


def _mutate(block: bytearray, chance: random.Random) -> None:
    at, count = min(int(chance.expovariate(1 / 120)), len(block) - 1), chance.randint(1, 8)
    match chance.randrange(6):
        case 0:
            block[at] ^= 1 << chance.randrange(8)
        case 1:
            block[at] = chance.choice((0, 1, 0x20, 0x7F, 0x80, 0xFF))
        case 2:
            block[at:at] = chance.randbytes(count)
        case 3:
            del block[at : at + count]
        case 4:
            block[at : at + count] = block[chance.randrange(len(block)) :][:count]
        case 5 if not chance.randrange(50):
            block[:] = chance.randbytes(len(block))
    if not block:
        block.append(0)


async def check(block: bytes, session: NtfSession, executor: BlockExecutor | None) -> Counter[bytes]:
    """How often which error was answered. Raises `FuzzError`."""
    _check_hello(block)
    asked = list(requests(block, session))
    replies = await executor.execute(asked, PEER) if executor else list(map(_reply, asked))
    answer = list(reply_blocks(replies, session))
    if len(replies) != len(asked) or not replies:
        raise FuzzError("not a reply for each transmission")
    if any(len(each) != NTF_BLOCK_BYTES for each in answer) or len(answer) > max(MOST_ANSWER, len(replies)):
        raise FuzzError("not answered in whole blocks, or by too many")
    return Counter(_kind(reply) for reply in replies)


def _check_hello(block: bytes) -> None:
    try:
        agreed_version(block, NTF_VERSIONS, IDENTITY)
    except MalformedSimplex:
        return
    raise FuzzError("a hello was accepted")


def _reply(request: NtfRequest | NtfReply) -> NtfReply:
    return request if isinstance(request, NtfReply) else request.reply(PONG)


def _kind(reply: NtfReply) -> bytes:
    return reply.content if reply.content.startswith((b"ERR ", b"PONG")) else b"else"


async def fuzz(count: int, seed: int, executor: BlockExecutor) -> Counter[bytes]:
    """Of `count` blocks, half of them in a session of the first version. Raises `FuzzError` for growth, too."""
    chance, found, grown_from = random.Random(seed), Counter[bytes](), 0  # noqa: S311 - a seeded generator
    sessions = [NtfSession(b"session", version, SESSION_KEY) for version in (3, 1)]
    streams = [(session, mutated(valid_blocks(session), chance)) for session in sessions]
    for number in range(count):
        session, blocks = streams[number % 2]
        found.update(await check(next(blocks), session, executor if number % EXECUTED < len(streams) else None))
        if number == count // 10:
            grown_from = _held()
    if (growth := _held() - grown_from) > MOST_GROWTH:
        raise FuzzError(f"{growth:,} bytes more are held than after the first tenth")
    return found


def _held() -> int:
    """Bytes of memory that this process has."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> int:
    counts: Counter[str] = Counter()
    executor = BlockExecutor(Unauthorized(), counts, Pace(1e9, 1_000_000), threads=2)  # type: ignore[arg-type] # of metrics
    start = time.monotonic()
    found = asyncio.run(fuzz(BLOCKS, SEED, executor))
    answers = ", ".join(f"{kind.decode()} {count:,}" for kind, count in found.most_common())
    print(f"{BLOCKS:,} mutated blocks in {time.monotonic() - start:.0f} s, none but the protocol's errors: {answers}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
