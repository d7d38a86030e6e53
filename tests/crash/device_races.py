"""Registrations of one Zulip device race: the real router, but which of them goes on after each request is drawn by lot.

Each is answered by an instance of its own. Every other seed's device has ended before, and is to be revived.
"""

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from api.networks.zulip.device_quota import DeviceQuota
from api.networks.zulip.worker import ZulipWorker
from api.recent import Recent
from clarion.decisions import SubscriptionStatus
from clarion.networks.zulip.servers import find_realm, find_server
from clarion.tables import Token
from clarion.tokens import hash_of
from tests.crash.bouncing import set_up
from tests.match.races import Turns
from tests.zulip import CallingServer, Clock, Reply, ZulipDevice

RIVALS = 4
ACCOUNT = 17
_RACING = threading.local()


def run(seeds: Iterable[int]) -> list[str]:
    """What went wrong, in as many races as there are seeds."""
    worker = ZulipWorker.serving(set_up())
    with _in_turns(worker):
        return [f"seed {seed}: {flaw}" for seed in seeds for flaw in _race(worker, seed)]


@contextmanager
def _in_turns(worker: ZulipWorker) -> Iterator[None]:
    """Whoever races waits for its turn before each request to a table."""

    def wait(**_: object) -> None:
        if turns := getattr(_RACING, "turns", None):
            turns.wait()

    events = worker.connection.client.meta.events
    events.register("before-call.dynamodb", wait)
    try:
        yield
    finally:
        events.unregister("before-call.dynamodb", wait)


def _race(worker: ZulipWorker, seed: int) -> Iterator[str]:
    clock = Clock()
    server, device = CallingServer(_instance(worker, clock), clock), ZulipDevice()
    server.admit()
    if seed % 2:
        server.register_account(device, ACCOUNT)
        server.kill(*server.rows())
        clock.pass_seconds(60)
    replies = _at_once(worker, server, device, seed)
    if {reply.status for reply in replies} != {200}:
        yield f"answered with {[reply.json for reply in replies]}"
    rows = server.rows()
    if [(row.status, row.subscription_id) for row in rows] != [
        (SubscriptionStatus.ACTIVE, name) for name in {reply.json.get("device_id") for reply in replies}
    ]:
        yield f"{len(rows)} devices, not one under the id that was answered"
    elif [token.subscription_id for token in Token.query(hash_of(rows[0]))] != [rows[0].subscription_id]:
        yield "the device does not hold its token"


def _at_once(worker: ZulipWorker, server: CallingServer, device: ZulipDevice, seed: int) -> list[Reply]:
    turns, replies = Turns(random.Random(seed)), list[Reply]()

    def rival(instance: ZulipWorker) -> Callable[[], None]:
        def work() -> None:
            _RACING.turns = turns
            caller = replace(server, worker=instance)
            replies.append(caller.register(device, token_id=None, push_account_id=ACCOUNT))

        return work

    turns.run([rival(_instance(worker, server.clock)) for _ in range(RIVALS)], lambda: None)
    return replies


def _instance(worker: ZulipWorker, clock: Clock) -> ZulipWorker:
    """Another one, which remembers neither servers nor realms."""
    servers, realms = Recent(find_server), Recent(find_realm)
    return replace(worker, now=clock, servers=servers, realms=realms, device_quota=DeviceQuota())
