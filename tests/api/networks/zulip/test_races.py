"""Registrations of one device at the same time, and the death of its token among them, whatever the order of their requests."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.tables import Subscription, Token
from clarion.tokens import hash_of
from tests.api.test_races import (
    SCHEDULES,
    Op,
    Runner,
    race,
    watched,  # noqa: F401 - a fixture
)
from tests.zulip import CallingServer, ZulipDevice

CRASHES = st.lists(st.none() | st.integers(0, 6), min_size=3, max_size=3)


@pytest.mark.usefixtures("zulip_worker", "watched")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ended=st.booleans(), dies=st.booleans(), crashes=CRASHES, schedule=SCHEDULES)
def test_a_device_has_one_row_and_its_id(
    known_server: Callable[..., CallingServer],
    ended: bool,
    dies: bool,
    crashes: list[int | None],
    schedule: list[tuple[int, int]],
) -> None:
    """`ended`: it is revived. `dies`: a report of the token's death comes late, about the life before."""
    server, device = known_server(), ZulipDevice()
    before = lived(server, device) if ended or dies else []
    if ended:
        server.kill(*before)
    server.clock.pass_seconds(60)
    sealed_at = server.clock.seconds
    runners = [Runner(Op("register"), crash_after) for crash_after in crashes]
    if dies:
        runners[0].op = Op("die")

    def perform(op: Op) -> int:
        if op.kind == "register":
            return server.register(device, sealed_at=sealed_at).status
        declare_dead(server.worker.connection, before[0], Death("Unregistered", at=server.clock.now))
        return 200

    race(runners, iter(schedule), perform)
    assert all(runner.requests or runner.error for runner in runners), "nobody watched their requests"
    assert {runner.answer for runner in runners if not runner.error} <= {200, 503, 400 if dies else 200}
    check(server)
    if not dies and any(runner.answer == 200 for runner in runners):
        assert [row.status for row in server.rows()] == [SubscriptionStatus.ACTIVE]
    server.clock.pass_seconds(1)
    assert server.register(device).status == 200
    assert [row.status for row in check(server)] == [SubscriptionStatus.ACTIVE]


def lived(server: CallingServer, device: ZulipDevice) -> list[Subscription]:
    assert server.register(device).status == 200
    return server.rows()


def check(server: CallingServer) -> list[Subscription]:
    rows = server.rows()
    assert len(rows) <= 1, "one device has more than one row"
    for row in rows:
        held = [token.subscription_id for token in Token.query(hash_of(row))]
        assert held == ([row.subscription_id] if row.status == SubscriptionStatus.ACTIVE else [])
    return rows
