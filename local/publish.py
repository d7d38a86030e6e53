"""Sign a statement as one of the simulated devices and submit it: `python -m local.publish URL NAME TOPIC TEXT`.

It never expires, unless `--expires-in` says after how many seconds.
"""

import argparse
import asyncio
import json
import time

from local.device import NEVER_EXPIRES, Device, Publisher


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m local.publish", description=__doc__)
    parser.add_argument("url", help="the statement store's WebSocket address")
    parser.add_argument("name", help="the device that signs, such as Alice")
    parser.add_argument("topic", type=bytes.fromhex, help="32 bytes in hex")
    parser.add_argument("text", help="what to say")
    parser.add_argument("--expires-in", type=int, help="seconds; without it, never")
    arguments = parser.parse_args()
    sender = Device(arguments.name)
    expires_at = NEVER_EXPIRES if arguments.expires_in is None else int(time.time()) + arguments.expires_in
    statement = sender.statement(arguments.topic, data=arguments.text.encode(), expires_at=expires_at)
    async with Publisher(arguments.url) as publisher:
        print(json.dumps({"sender_pubkey": sender.public_key.hex(), **await publisher.submit(statement)}))


if __name__ == "__main__":
    asyncio.run(main())
