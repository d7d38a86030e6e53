"""What a task was not shown, as XMTP's nodes replay nothing, another forwards that was."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from clarion.metrics import Metric
from ingest.lease.shards import SHARDS
from tests.ingest.xmtp.conftest import MakeXmtpSettings
from tests.ingest.xmtp.nodes import GrpcNode, envelope

if TYPE_CHECKING:
    from tests.ingest.conftest import ReceivedQueue, Run


async def test_what_comes_while_one_task_is_cut_off_for_a_moment_is_forwarded_by_the_other(
    xmtp_node: GrpcNode,
    certificate: Path,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
) -> None:
    node_of_other = GrpcNode(certificate)
    async with (
        node_of_other,
        running(xmtp_settings(xmtp_node, overlap_seconds=0)) as cut_off,
        running(xmtp_settings(node_of_other, overlap_seconds=0)) as other,
    ):
        while not 0 < cut_off.sharing.shards.owned == SHARDS - other.sharing.shards.owned < SHARDS:
            await asyncio.sleep(0.01)
        await xmtp_node.__aexit__()
        while cut_off.sources.connected:
            await asyncio.sleep(0.01)
        node_of_other.show(*(envelope(f"{number}") for number in range(40)))
        while other.counts[Metric.ENVELOPES_RECEIVED] < 40:
            await asyncio.sleep(0.01)
        await xmtp_node.__aenter__()
        while len(set(received.statements())) < 40:
            await asyncio.sleep(0.01)
    assert set(received.statements()) == {envelope(f"{number}") for number in range(40)}
