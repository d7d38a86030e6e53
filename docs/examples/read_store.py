"""Read what a node keeps for the rules of one sender: `read_store.py NODE SENDER TOPIC …`, each in hex.

It prints a line of JSON for each statement that is to be shown. An app keeps the digests in its database, beside those
of its pushes, each until the statement has expired.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b, sha256
from typing import NamedTuple

import sr25519
from websockets.asyncio.client import connect

MAX_MESSAGE = 16 << 20
"""Bytes: a node sends up to 4 MiB of statements at once, in hex."""
SECONDS = 20
SR25519_PROOF = b"\0\0"
"""The field 0, of the kind 0: 64 bytes of signature, 32 of key."""
EXPIRY, TOPICS, DATA = 2, range(4, 8), 8

type Rule = tuple[bytes, bytes]
"""Sender and topic."""


class StoredStatement(NamedTuple):
    """Bytes in hex, as in a push. `topic` is the first that a rule names, `expires_at` is in UNIX seconds."""

    sender: str
    topic: str
    data: str
    hash: str
    expires_at: int

    @property
    def digests(self) -> set[str]:
        """Of its push with the data, and of one whose data didn't fit."""
        named = self.sender + self.topic
        return {sha256((named + content).encode()).hexdigest() for content in (self.data, self.hash)}


async def read(node: str, topics: Sequence[bytes]) -> list[bytes]:
    """All encoded statements that the node keeps of these topics, 128 at most. Anybody may have published them."""
    params = [{"matchAny": [f"0x{topic.hex()}" for topic in topics]}]
    request = {"jsonrpc": "2.0", "id": 1, "method": "statement_subscribeStatement", "params": params}
    statements: list[bytes] = []
    async with asyncio.timeout(SECONDS), connect(node, max_size=MAX_MESSAGE) as socket:
        await socket.send(json.dumps(request))
        async for frame in socket:
            answer = json.loads(frame)
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            if "params" not in answer:
                continue  # the subscription's id
            shown = answer["params"]["result"]["data"]
            statements += (bytes.fromhex(text.removeprefix("0x")) for text in shown["statements"])
            if shown.get("remaining") == 0:
                break  # that was all it keeps; what comes from now on is new
    return statements


def parse(statement: bytes, rules: set[Rule]) -> StoredStatement | None:
    """None if no rule names it, or its sender hasn't signed it."""
    signature, sender, signed = statement[3:67], statement[67:99], statement[99:]
    if statement[1:3] != SR25519_PROOF or not is_signed(signature, signed, sender):
        return None
    fields = dict(fields_of(signed))
    topic = next((fields[tag] for tag in TOPICS if (sender, fields.get(tag)) in rules), None)
    if topic is None:
        return None
    digest = blake2b(statement, digest_size=32).hexdigest()
    expires_at = int.from_bytes(fields[EXPIRY], "little") >> 32
    return StoredStatement(sender.hex(), topic.hex(), fields.get(DATA, b"").hex(), digest, expires_at)


def is_signed(signature: bytes, signed: bytes, sender: bytes) -> bool:
    """In the context `substrate`, which is the package's own."""
    try:
        return bool(sr25519.verify(signature, signed, sender))
    except ValueError:  # neither a signature nor a key may be any bytes
        return False


def fields_of(signed: bytes) -> Iterator[tuple[int, bytes]]:
    """Each field after the proof: its number, and its bytes."""
    position = 0
    while position < len(signed):
        number, start = signed[position], position + 1
        if number == DATA:  # the last one, after its length in 1, 2 or 4 bytes
            yield number, signed[start + (1 << (signed[start] & 3)) :]
            return
        position = start + (8 if number == EXPIRY else 32)
        yield number, signed[start:position]


def unseen(statements: Sequence[bytes], rules: set[Rule], seen: set[str]) -> Iterator[StoredStatement]:
    """What is to be shown, each once; the digests of all go to `seen`."""
    for statement in statements:
        stored = parse(statement, rules)
        if stored is None:
            continue
        if seen.isdisjoint(stored.digests):
            yield stored
        seen |= stored.digests


if __name__ == "__main__":
    node, sender, *topics = sys.argv[1], *map(bytes.fromhex, sys.argv[2:])
    rules = {(sender, topic) for topic in topics}
    for stored in unseen(asyncio.run(read(node, topics)), rules, set()):
        print(json.dumps({**stored._asdict(), "digests": sorted(stored.digests)}))
