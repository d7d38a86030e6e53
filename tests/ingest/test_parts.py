"""Parts of the work that one task alone may do."""

import pytest

from clarion.tables import Lease, PartLease
from ingest.lease.leases import Leases
from ingest.lease.parts import FREE, PartLeases
from ingest.lease.shards import candidate_for

pytestmark = pytest.mark.usefixtures("tables")
NAMES = [f"toy/{number}" for number in range(8)]


def joined(name: str) -> Leases:
    leases = Leases(name, 60.0)
    leases.renew(1, networks=1)
    return leases


async def holding_all(leases: Leases) -> PartLeases:
    parts = PartLeases(leases, NAMES)
    for name in list(parts.due()):
        assert await parts.acquire(name)
    return parts


async def test_a_task_alone_takes_all_parts_and_keeps_them() -> None:
    parts = await holding_all(joined("a"))
    assert parts.mine == set(NAMES)
    assert not list(parts.due())
    assert not list(parts.surplus())


async def test_a_part_of_a_task_at_work_is_due_to_nobody_until_it_is_released() -> None:
    a = joined("a")
    held = await holding_all(a)
    b = joined("b")
    a.renew(1, networks=1)
    b.renew(1, networks=1)
    of_b = {name for name in NAMES if candidate_for(name, ["a", "b"]) == "b"}
    parts = PartLeases(b, NAMES)
    assert not list(parts.due())
    assert set(held.surplus()) == of_b
    for name in of_b:
        await held.release(name)
    b.renew(1, networks=1)
    assert set(parts.due()) == of_b
    assert held.mine == set(NAMES) - of_b


async def test_of_two_that_take_a_free_part_one_gets_it() -> None:
    a = joined("a")
    b = joined("b")
    assert await PartLeases(a, NAMES).acquire(NAMES[0])
    assert not await PartLeases(b, NAMES).acquire(NAMES[0])


async def test_a_holder_that_was_taken_for_dead_notices_it_in_the_row() -> None:
    held = await holding_all(joined("a"))
    PartLease(NAMES[0], holder="b", version=1).save()
    assert not await held.hold(NAMES[0])
    assert await held.hold(NAMES[1])
    assert NAMES[0] not in held.mine
    await held.release(NAMES[0])
    assert PartLease.get(NAMES[0]).holder == "b"


async def test_a_released_part_is_free_and_no_part_counts_as_a_task() -> None:
    a = joined("a")
    held = await holding_all(a)
    await held.release(NAMES[0])
    assert PartLease.get(NAMES[0]).holder == FREE
    a.renew(1, networks=1)
    assert list(a.tasks) == ["a"]
    assert [row.name for row in Lease.scan() if row.holder is None] == ["a"]
