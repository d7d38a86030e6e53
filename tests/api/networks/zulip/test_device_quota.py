"""How many devices a server may have, and what it costs to know."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from api.networks.zulip.device_quota import FULL_SECONDS, SHARE, DeviceQuota
from api.networks.zulip.worker import ZulipWorker
from tests.zulip import ZulipDevice, ZulipServer


@dataclass
class Watch:
    """In seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def counts(zulip_worker: ZulipWorker) -> Iterator[list[str]]:
    """A line for each request that counts devices."""
    made = list[str]()
    events = zulip_worker.connection.client.meta.events

    def note(**_: Any) -> None:
        made.append("count")

    events.register("before-call.dynamodb.Query", note)
    yield made
    events.unregister("before-call.dynamodb.Query", note)


@pytest.mark.usefixtures("zulip_worker")
def test_a_server_is_counted_again_after_a_share_of_what_was_left(counts: list[str]) -> None:
    quota, client_id = DeviceQuota(), uuid4().bytes
    assert all(quota.take(client_id, 50 * SHARE) for _ in range(50))
    assert len(counts) == 1
    assert quota.take(client_id, 50 * SHARE)
    assert len(counts) == 2


def test_a_full_server_is_counted_once_a_minute(known_server: Callable[..., ZulipServer], counts: list[str]) -> None:
    server, watch = known_server(), Watch()
    assert server.register(ZulipDevice()).status == 200
    quota, client_id = DeviceQuota(watch), server.uuid.bytes
    counts.clear()
    assert [quota.take(client_id, 1) for _ in range(5)] == [False] * 5
    assert len(counts) == 1
    assert quota.take(client_id, 2), "more than before"
    watch.now = FULL_SECONDS
    assert not quota.take(client_id, 1)
    assert len(counts) == 3


def test_a_server_gets_all_its_devices_and_no_more(known_server: Callable[..., ZulipServer]) -> None:
    most = 2 * SHARE + 5
    server = known_server(devices_most=most)
    statuses = [server.register(ZulipDevice()).status for _ in range(most + 2)]
    assert statuses == [200] * most + [503] * 2
