import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from clarion.messages import SecondLookMessage
from clarion.networks.statements.codec import MAX_SIZE
from clarion.storage import OVERSIZE_PREFIX, SEEN_PREFIX
from ingest.wiring import AwsClients
from tests.ingest.conftest import MakeSettings, MakeStatement, WriteRule

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run


pytestmark = pytest.mark.usefixtures("rule")


async def test_a_live_statement_is_forwarded_once(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    async with running(make_settings(node)):
        await node.subscribed()
        node.show(make_statement(1))
        node.show(make_statement(1), make_statement(2))
        await received.holds(2)
    assert received.statements() == sorted([make_statement(1), make_statement(2)])
    assert len({message.receipt for message in received.messages}) == 2


async def test_a_first_node_that_holds_nothing_does_not_make_what_stands_in_another_new(
    node: "FakeNode",
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    s3: "S3Client",
) -> None:
    late = make_node(stored=[make_statement(number) for number in range(3)])
    async with late:
        pass
    async with running(make_settings(node, late)) as task:
        await node.subscribed()
        await asyncio.sleep(0.3)  # some savings of what was seen
        assert "Contents" not in s3.list_objects_v2(Bucket="oversize", Prefix=SEEN_PREFIX)
        async with late:
            while task.status()["seen"] != 3:
                await asyncio.sleep(0.01)
            node.show(make_statement(3))
            await received.holds(1)
    assert received.statements() == [make_statement(3)]


@pytest.mark.parametrize("dialect", ["current", "draft"])
async def test_what_stood_before_the_first_start_is_not_forwarded(
    dialect: str,
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    stored = [make_statement(number) for number in range(250)]
    async with make_node(dialect, stored) as node, running(make_settings(node)):
        await node.subscribed()
        node.show(make_statement(1000))
        await received.holds(1)
    assert received.statements() == [make_statement(1000)]


async def test_what_stood_before_the_first_start_is_forwarded_if_a_setting_asks_for_it(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    node.stored = [make_statement(number) for number in range(3)]
    async with running(make_settings(node, first_replay="handle")):
        await received.holds(3)
    assert received.statements() == sorted(node.stored)


async def test_what_arrived_while_the_connection_was_down_is_forwarded(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    node.stored = [make_statement(0)]
    async with running(make_settings(node)):
        await node.subscribed()
        await node.hang_up()
        node.stored.append(make_statement(1))
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


async def test_what_a_second_node_holds_when_it_first_comes_up_is_old_and_what_it_replays_later_is_new(
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    late = make_node()
    async with late:
        pass
    async with make_node(stored=[make_statement(0)]) as first, running(make_settings(first, late)) as task:
        await first.subscribed()
        while task.status()["seen"] != 1:
            await asyncio.sleep(0.01)
        late.stored = [make_statement(0), make_statement(1)]
        async with late:
            while task.status()["seen"] != 2:
                await asyncio.sleep(0.01)
            late.stored.append(make_statement(2))
            await late.hang_up()
            await received.holds(1)
    assert received.statements() == [make_statement(2)]


async def test_two_nodes_that_show_the_same_statement_make_one_message(
    make_node: Callable[..., "FakeNode"],
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    async with make_node() as one, make_node("draft") as other, running(make_settings(one, other)):
        await one.subscribed()
        await other.subscribed()
        one.show(make_statement(1))
        other.show(make_statement(1), make_statement(2))
        await received.holds(2)
    assert len(received.read()) == 2


class RefusingS3:
    """Takes no oversize statements for as long as it `refuses`, and all else."""

    def __init__(self, client: "S3Client") -> None:
        self._client = client
        self.refuses = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def put_object(self, **request: Any) -> Any:
        if self.refuses and request["Key"].startswith(OVERSIZE_PREFIX):
            raise ClientError({"Error": {"Code": "SlowDown"}}, "PutObject")
        return self._client.put_object(**request)


async def test_a_large_statement_that_s3_refuses_holds_back_none_that_is_sent_with_it(
    node: "FakeNode",
    running: "Run",
    clients: AwsClients,
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
) -> None:
    refusing: Any = RefusingS3(clients.oversize)
    async with running(make_settings(node), oversize=refusing) as task:
        await node.subscribed()
        node.show(make_statement(1), make_statement(2, size=MAX_SIZE - 200), make_statement(3))
        await received.holds(2)
        assert received.statements() == sorted([make_statement(1), make_statement(3)])
        while task.status()["held"] != 1:
            await asyncio.sleep(0.01)
        refusing.refuses = False
        (*_, large) = await received.holds(3)
        assert (large.raw, large.location) == (None, f"{OVERSIZE_PREFIX}{large.receipt}")


def test_a_missing_setting_stops_the_start_and_is_named() -> None:
    started = subprocess.run(
        [sys.executable, "-m", "ingest"], env={}, capture_output=True, text=True, timeout=120, check=False
    )
    assert started.returncode == 1
    assert "envelopes_queue_url" in started.stderr


async def test_a_rule_written_after_its_statement_was_sent_gets_it_a_second_look_before_it_is_handled(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
) -> None:
    async with running(make_settings(node, rule_lag_seconds=1.0, stream_idle_seconds=3600)) as task:
        await node.subscribed()
        node.show(make_statement(1))
        [first] = await received.holds(1)
        write_rule(generation=2)
        [_, look] = await received.holds(2)
        while task.status()["forwarded_lately"]:
            await asyncio.sleep(0.01)
    assert isinstance(look, SecondLookMessage)
    assert (look.receipt, look.raw, look.subscription_ids) == (first.receipt, first.raw, ("s",))


async def test_a_rule_written_while_nothing_was_shown_is_read_once_its_statement_comes(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    write_rule: WriteRule,
) -> None:
    other = b"\x0e" * 32
    async with running(make_settings(node, rule_lag_seconds=5.0, stream_idle_seconds=3600)):
        await node.subscribed()
        await asyncio.sleep(0.3)  # the stream has been read
        write_rule(topic=other)
        node.show(make_statement(1, topics=(other,)))
        await received.holds(1)
    assert received.statements() == [make_statement(1, topics=(other,))]
