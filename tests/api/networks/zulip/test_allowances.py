"""What an instance counts by itself, and what the table counts for all."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.networks.zulip.allowances import SHARE, Allowances
from api.networks.zulip.worker import ZulipWorker

NOW = 1_800_000_000_000
pytestmark = pytest.mark.usefixtures("zulip_worker")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 60), calls=st.lists(st.integers(0, 2), max_size=120))
def test_no_less_passes_than_the_allowance_and_no_more_than_a_share_for_each_instance_beside(
    zulip_worker: ZulipWorker, limit: int, calls: list[int]
) -> None:
    instances, name = [Allowances() for _ in range(3)], f"test:{uuid4()}"
    passed = [instances[number].take(name, limit, NOW) is None for number in calls]
    assert sum(passed) <= limit + len(instances) * (limit // SHARE)
    assert all(passed[:limit])


def test_many_are_asked_for_at_once() -> None:
    allowances, full, free = Allowances(), f"test:{uuid4()}", f"test:{uuid4()}"
    with ThreadPoolExecutor(2) as executor:
        assert allowances.refused({full: 22, free: 2}, 20, NOW, executor) == set()
        assert allowances.refused({full: 1, free: 20}, 20, NOW, executor) == {full}


def test_more_than_the_allowance_is_refused() -> None:
    assert Allowances().take(f"test:{uuid4()}", 20, NOW, 23) == 60 - NOW // 1000 % 60
