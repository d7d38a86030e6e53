"""How many devices a server may have, and what it costs to know."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from api.networks.zulip.device_quota import FULL_SECONDS, SHARE, DeviceQuota
from tests.zulip import CallingServer, ZulipDevice


@dataclass
class Watch:
    """In seconds."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_server_is_counted_again_after_a_share_of_what_was_left(requests: Counter[str]) -> None:
    quota, client_id = DeviceQuota(), uuid4().bytes
    assert all(quota.allows_another(client_id, 50 * SHARE) for _ in range(50))
    assert requests["Query"] == 1
    assert quota.allows_another(client_id, 50 * SHARE)
    assert requests["Query"] == 2


def test_a_full_server_is_counted_once_a_minute(
    known_server: Callable[..., CallingServer], requests: Counter[str]
) -> None:
    server, watch = known_server(), Watch()
    assert server.register(ZulipDevice()).status == 200
    quota, client_id = DeviceQuota(watch), server.uuid.bytes
    requests.clear()
    assert [quota.allows_another(client_id, 1) for _ in range(5)] == [False] * 5
    assert requests["Query"] == 1
    assert quota.allows_another(client_id, 2), "more than before"
    watch.now = FULL_SECONDS
    assert not quota.allows_another(client_id, 1)
    assert requests["Query"] == 3


def test_a_server_gets_all_its_devices_and_no_more(known_server: Callable[..., CallingServer]) -> None:
    most = 2 * SHARE + 5
    server = known_server(max_devices=most)
    statuses = [server.register(ZulipDevice()).status for _ in range(most + 2)]
    assert statuses == [200] * most + [503] * 2
