"""How many pushes of a Zulip server the emulated stack takes, and delivers, in a second: `make bench-bouncer`.

    python -m bench.bouncer --rounds 40

In each round the server notifies all of its devices by one request, of which some are under way at once. APNs is the
stand-in, and all share one machine.
"""

import argparse
import asyncio
import time

from bench.figures import Figure, report
from local.system import PATIENCE, System, running
from local.zulip_client import Phone, ShippedAccount
from local.zulip_devices import TokenKind, ZulipRealm
from local.zulip_server import ZulipServer
from local.zulip_story import self_hosted

DEVICES = 100
ROUNDS = 40
"""A token gets 60 pushes a minute at most."""
AT_ONCE = 4


async def measured(rounds: int) -> list[Figure]:
    async with running("bench-bouncer", lambda _: None) as system, self_hosted(system, "zulip.example.org") as site:
        realm = site.server.add_realm("Engineering")
        await site.server.join()
        for number in range(DEVICES):
            phone = Phone(TokenKind.APNS, f"{number:064x}", site.release)
            await site.register(ShippedAccount, realm, phone, user_id=number)
        await _notify(site.server, realm, rounds=1)
        await system.apns.received.until(DEVICES)
        return await _figures(system, site.server, realm, rounds)


async def _figures(system: System, server: ZulipServer, realm: ZulipRealm, rounds: int) -> list[Figure]:
    begun = time.monotonic()
    queued = await _notify(server, realm, rounds)
    taken_s = time.monotonic() - begun
    async with asyncio.timeout(PATIENCE):
        await system.apns.received.until(DEVICES + queued)
    received_s = time.monotonic() - begun
    return [
        Figure.beside("pushes of a bouncer queued, beside asked for", queued, rounds * DEVICES, "pushes"),
        Figure.alone("pushes of a bouncer queued", queued / taken_s, "pushes/s"),
        Figure.alone("pushes of a bouncer received by APNs", queued / received_s, "pushes/s"),
    ]


async def _notify(server: ZulipServer, realm: ZulipRealm, rounds: int) -> int:
    """How many pushes were queued."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> int:
        async with turns:
            return await server.notify(realm, {"type": "message", "content": f"number {number}"})

    return sum(await asyncio.gather(*map(one, range(rounds))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    report(asyncio.run(measured(parser.parse_args().rounds)))


if __name__ == "__main__":
    main()
