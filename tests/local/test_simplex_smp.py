"""The SMP server, over TLS, by the agent's client and by a notification server's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from local.simplex.agent_smp import SmpPool
from local.simplex.agent_state import AgentQueue
from local.simplex.client import CommandRefusedError, SimplexClient
from local.simplex.codec import WireFault, WireReader, unpadded
from local.simplex.identity import StandInIdentity
from local.simplex.keys import AuthKey, SharedBox, auth_key
from local.simplex.smp_queues import RETENTION_S, MessageQueues
from local.simplex.smp_server import StandInSmpServer
from local.simplex.stream import SMP_BLOCK, BlockStream, ConnectionLostError, SimplexAddress
from local.simplex.transmissions import WireTransmission
from tests.standins import NOW, Clock

FLUSH = 0.02


@asynccontextmanager
async def served(queues: MessageQueues | None = None) -> AsyncIterator[tuple[StandInSmpServer, SmpPool]]:
    async with asyncio.timeout(60), StandInSmpServer(queues, flush_s=FLUSH) as server, SmpPool() as pool:
        yield server, pool


async def notified_queue(server: StandInSmpServer, pool: SmpPool) -> AgentQueue:
    queue = await pool.open_queue(server.address)
    await pool.enable(queue)
    return queue


async def subscribe(client: SimplexClient, queue: AgentQueue) -> bytes:
    return await client.ask(b"NSUB", queue.notifier_id, auth_key(queue.notifier_key))


async def next_event(client: SimplexClient) -> WireTransmission:
    async with asyncio.timeout(60):
        return await client.events.get()


async def test_a_follower_is_notified_with_metadata_that_the_recipient_alone_reads() -> None:
    async with served() as (server, pool), await SimplexClient.of_smp(server.address) as follower:
        queue = await notified_queue(server, pool)
        assert await subscribe(follower, queue) == b"OK"
        await pool.send(server.address, queue.sender_id, b"hello")
        event = await next_event(follower)
        assert (event.correlation, event.entity, len(event.command)) == (b"", queue.notifier_id, 5 + 24 + 1 + 144)
        reader = WireReader(event.command)
        reader.expect(b"NMSG ")
        nonce, meta = reader.take(24), reader.short()
        opened = WireReader(unpadded(SharedBox(queue.notifier_secret).open(nonce, meta)))
        [(message_id, body)] = await pool.fetch(queue)
        assert (opened.short(), body) == (message_id, b"hello")


async def test_a_message_that_is_not_to_be_notified_is_only_stored() -> None:
    async with served() as (server, pool), await SimplexClient.of_smp(server.address) as follower:
        queue = await notified_queue(server, pool)
        await subscribe(follower, queue)
        await pool.send(server.address, queue.sender_id, b"quiet", notify=False)
        await pool.send(server.address, queue.sender_id, b"loud")
        await next_event(follower)
        assert [body for _, body in await pool.fetch(queue)] == [b"quiet", b"loud"]
        assert server.counts["NMSG"] == 1


async def test_what_comes_while_nobody_follows_waits_for_a_day() -> None:
    clock = Clock(NOW)
    async with served(MessageQueues(clock)) as (server, pool), await SimplexClient.of_smp(server.address) as follower:
        queue = await notified_queue(server, pool)
        await pool.send(server.address, queue.sender_id, b"too old")
        clock.advance(RETENTION_S)
        for body in (b"one", b"two"):
            await pool.send(server.address, queue.sender_id, body)
        clock.advance(1)
        await subscribe(follower, queue)
        await next_event(follower)
        await next_event(follower)
        assert server.counts["NMSG"] == 2


@pytest.mark.parametrize("wrong", ["key", "notifier"])
async def test_only_the_notifiers_key_may_follow(wrong: str) -> None:
    async with served() as (server, pool), await SimplexClient.of_smp(server.address) as stranger:
        queue, other = [await notified_queue(server, pool) for _ in range(2)]
        key: AuthKey = auth_key(other.notifier_key if wrong == "key" else queue.notifier_key)
        with pytest.raises(CommandRefusedError, match="AUTH"):
            await stranger.ask(b"NSUB", queue.notifier_id if wrong == "key" else b"x" * 24, key)
        assert not server.subscribed


async def test_who_follows_next_ends_who_did_before() -> None:
    async with (
        served() as (server, pool),
        await SimplexClient.of_smp(server.address) as first,
        await SimplexClient.of_smp(server.address) as second,
    ):
        queue = await notified_queue(server, pool)
        await subscribe(first, queue)
        await subscribe(first, queue)
        await subscribe(second, queue)
        assert (await next_event(first)).command == b"END"
        assert server.counts["END"] == 1
        await pool.send(server.address, queue.sender_id, b"for the second")
        assert (await next_event(second)).command.startswith(b"NMSG ")


@pytest.mark.parametrize("how", ["disable", "delete", "enable"])
async def test_a_follower_learns_that_the_notifier_is_gone(how: str) -> None:
    async with served() as (server, pool), await SimplexClient.of_smp(server.address) as follower:
        queue = await notified_queue(server, pool)
        notifier_id = queue.notifier_id
        await subscribe(follower, queue)
        await getattr(pool, how)(queue)
        event = await next_event(follower)
        assert (event.command, event.entity) == (b"DELD", notifier_id)
        assert not server.subscribed


async def test_queues_outlive_the_server_and_subscriptions_do_not() -> None:
    async with served() as (server, pool):
        queue = await notified_queue(server, pool)
        async with await SimplexClient.of_smp(server.address) as follower:
            await subscribe(follower, queue)
            address = server.address
            await server.restart()
            with pytest.raises(ConnectionLostError):
                await follower.ask(b"PING")
        assert (server.address, server.subscribed) == (address, frozenset())
        await pool.send(server.address, queue.sender_id, b"meanwhile")
        async with await SimplexClient.of_smp(server.address) as follower:
            assert await follower.ask(b"PING") == b"PONG"
            await subscribe(follower, queue)
            assert (await next_event(follower)).command.startswith(b"NMSG ")


async def test_many_subscriptions_go_in_few_blocks() -> None:
    async with served() as (server, pool), await SimplexClient.of_smp(server.address) as follower:
        queues = [await notified_queue(server, pool) for _ in range(3)]
        asked = [WireTransmission.asking(b"NSUB", each.notifier_id) for each in queues]
        keyed = [follower.authorized(one, auth_key(each.notifier_key)) for one, each in zip(asked, queues, strict=True)]
        assert [each.command for each in await follower.exchange(keyed)] == [b"OK"] * 3
        assert server.subscribed == {each.notifier_id for each in queues}


async def test_a_refusal_may_be_ordered() -> None:
    async with served() as (server, pool), await SimplexClient.of_smp(server.address) as follower:
        queue = await notified_queue(server, pool)
        server.refusals[queue.notifier_id] = b"ERR SERVICE"
        with pytest.raises(CommandRefusedError, match="SERVICE"):
            await subscribe(follower, queue)


@pytest.mark.parametrize(("command", "error"), [(b"NONE", "CMD UNKNOWN"), (b"PING x", "CMD SYNTAX")])
async def test_what_is_no_command_is_refused(command: bytes, error: str) -> None:
    async with served() as (server, _), await SimplexClient.of_smp(server.address) as client:
        with pytest.raises(CommandRefusedError, match=error):
            await client.ask(command)


async def test_a_client_of_another_server_or_version_is_turned_away() -> None:
    async with served() as (server, _):
        mistaken = SimplexAddress(StandInIdentity.made().key_hash, server.address.hosts, server.address.port)
        with pytest.raises(WireFault, match="another"):
            await SimplexClient.of_smp(mistaken)
        stream = await BlockStream.connected("localhost", int(server.address.port), SMP_BLOCK, "smp/1")
        await stream.read()
        await stream.write(b"\x00\x12" + b"\x20" + server.identity.key_hash)
        with pytest.raises(ConnectionLostError):
            await stream.read()
