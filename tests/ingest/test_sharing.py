"""Renewing the lease, and what follows."""

import asyncio
from typing import TYPE_CHECKING

from clarion.metrics import Metric
from ingest.counts import OfNetwork
from ingest.memory.standby import ReceivedEnvelope, Reception
from ingest.sources.feed import Feed
from ingest.sources.statements.source import SOURCE_SPEC
from ingest.wiring import AwsClients, wire
from tests.ingest.conftest import MakeSettings

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode


async def test_a_lease_is_renewed_however_much_is_to_be_taken_over(
    node: "FakeNode", clients: AwsClients, make_settings: MakeSettings
) -> None:
    task = wire(make_settings(node), clients)
    sharing, standby = task.sharing, task.sharing.standby
    sharing.shards.divide(["lost"])
    standby.hold(ReceivedEnvelope(1, b"malformed", Reception(Feed(1, "statements", SOURCE_SPEC), 0, None)))
    sharing.networks = lambda: 1
    await sharing.renew()
    assert (sharing.shards.owned, len(standby)) == (256, 1)
    taking_over = asyncio.create_task(sharing.take_over_forever())
    while len(standby):
        await asyncio.sleep(0)
    taking_over.cancel()
    assert task.counts["envelope_malformed"] == 1


def test_a_task_that_is_not_at_work_says_nothing_of_its_nodes(
    node: "FakeNode", clients: AwsClients, make_settings: MakeSettings
) -> None:
    """The alarms watch the task at work that is connected to the fewest."""
    task = wire(make_settings(node), clients)
    task.open_sources()
    connected = OfNetwork(Metric.NODES_CONNECTED, "statements")
    assert connected not in task.gauges()
    task.sharing.shards.divide([task.sharing.leases.me])
    assert task.gauges()[connected] == 0
