"""Fetch the data that a push had no space for: `fetch_statement.py NODE TOPIC HASH`, the latter two as pushed."""

import asyncio
import json
import sys
from hashlib import blake2b

from websockets.asyncio.client import connect

MAX_MESSAGE = 16 << 20
"""Bytes: a node sends up to 4 MiB of statements at once, in hex."""
SECONDS = 20
PROOF_BYTES = {0: 96, 1: 96, 2: 98}
"""Sr25519, Ed25519, ECDSA: a signature and a public key."""


async def fetch(node: str, topic: str, statement_hash: str) -> bytes | None:
    """The encoded statement, or None if the node doesn't keep it any more."""
    params = [{"matchAny": [f"0x{topic}"]}]
    request = {"jsonrpc": "2.0", "id": 1, "method": "statement_subscribeStatement", "params": params}
    async with asyncio.timeout(SECONDS), connect(node, max_size=MAX_MESSAGE) as socket:
        await socket.send(json.dumps(request))
        async for frame in socket:
            answer = json.loads(frame)
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            if "params" not in answer:
                continue  # the subscription's id
            shown = answer["params"]["result"]["data"]
            for text in shown["statements"]:
                statement = bytes.fromhex(text.removeprefix("0x"))
                if blake2b(statement, digest_size=32).hexdigest() == statement_hash:
                    return statement
            if shown.get("remaining") == 0:
                return None  # that was all it keeps; what comes from now on is new
    return None


def data_of(statement: bytes) -> bytes:
    """The field 8 of its SCALE encoding, the last one; empty if there is none."""
    position = 1
    while position < len(statement):
        match statement[position]:
            case 8:
                length_bytes = 1 << (statement[position + 1] & 3)
                return statement[position + 1 + length_bytes :]
            case 0:
                position += 2 + PROOF_BYTES[statement[position + 1]]
            case 2:
                position += 9
            case _:
                position += 33
    return b""


if __name__ == "__main__":
    found = asyncio.run(fetch(*sys.argv[1:]))
    print("gone" if found is None else data_of(found).hex())
