"""The agent between an SMP server and a notification server, over TLS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from local.simplex.agent import INTERVAL_MIN, Agent
from local.simplex.agent_state import AgentMode, AgentState, QueueStep, TokenStep
from local.simplex.client import SimplexClient
from local.simplex.codec import WireFault
from local.simplex.ntf_commands import ping
from local.simplex.pushes import PushedItem, as_item
from local.simplex.smp_server import StandInSmpServer
from local.simplex.stream import ConnectionLostError, SimplexAddress
from tests.local.simplex_ntf_server import ServedNtf

TOKEN, OTHER_TOKEN = "ab" * 32, "cd" * 32


@dataclass
class Place:
    smp: StandInSmpServer
    ntf: ServedNtf
    file: Path

    def agent(self) -> Agent:
        return Agent(AgentState.loaded(self.file), self.ntf.address)

    async def verified(self, agent: Agent, mode: AgentMode = AgentMode.INSTANT) -> None:
        await agent.register(TOKEN, mode)
        assert await agent.pushed(self.ntf.token.verification) == []


@asynccontextmanager
async def place_in(folder: Path) -> AsyncIterator[Place]:
    async with asyncio.timeout(60), StandInSmpServer(flush_s=0.02) as smp, ServedNtf() as ntf:
        yield Place(smp, ntf, folder / "agent.json")


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with place_in(tmp_path) as made:
        yield made


async def test_a_token_is_active_once_the_pushed_code_came_back(place: Place) -> None:
    async with place.agent() as agent:
        await agent.register(TOKEN)
        assert (agent.token.step, place.ntf.token.device_token) == (TokenStep.WAIT, TOKEN)
        await agent.pushed(place.ntf.token.verification)
        assert (await agent.status(), place.ntf.token.interval) == ("ACTIVE", INTERVAL_MIN)
    assert place.ntf.commands == ["TNEW", "TVFY", "TCRN", "TCHK"]


async def test_to_register_again_is_answered_alike_and_later_only_checks(place: Place) -> None:
    async with place.agent() as agent:
        await agent.register(TOKEN)
        first = agent.token.id, agent.token.secret
        await agent.register(TOKEN)
        assert (agent.token.id, agent.token.secret) == first
        await agent.pushed(place.ntf.token.verification)
        await agent.register(TOKEN)
    assert place.ntf.commands == ["TNEW", "TNEW", "TVFY", "TCRN", "TCHK", "TCRN"]


async def test_each_queue_gets_a_notifier_and_a_subscription(place: Place) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queues = [await agent.add_queue(place.smp.address) for _ in range(2)]
        await agent.work()
        await agent.check()
    assert [each.step for each in queues] == [QueueStep.CHECK] * 2
    assert [each.status for each in queues] == ["NEW"] * 2
    assert set(place.ntf.notifiers) == {each.notifier_id for each in queues}


async def test_queues_from_before_the_token_are_followed_once_it_is_active(place: Place) -> None:
    async with place.agent() as agent:
        queue = await agent.add_queue(place.smp.address)
        await agent.work()
        assert not place.smp.queues.notifiers
        await place.verified(agent)
        await agent.work()
    assert (queue.step, queue.notifier_id in place.ntf.notifiers) == (QueueStep.CHECK, True)


@pytest.mark.parametrize("status", ["END", "DELETED", "AUTH", "ERR something", None])
async def test_a_subscription_that_has_ended_is_made_anew_from_its_key(place: Place, status: str | None) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queue = await agent.add_queue(place.smp.address)
        await agent.work()
        before = queue.notifier_id, queue.subscription_id
        if status is None:
            place.ntf.subscriptions.clear()
        else:
            place.ntf.subscriptions[queue.subscription_id] = status
        await agent.check()
        assert queue.step is QueueStep.SMP_KEY
        await agent.work()
        await agent.check()
    assert (queue.step, queue.status) == (QueueStep.CHECK, "NEW")
    assert set(before).isdisjoint({queue.notifier_id, queue.subscription_id})


@pytest.mark.parametrize("status", ["NEW", "PENDING", "ACTIVE", "INACTIVE", "SERVICE"])
async def test_a_subscription_that_goes_on_is_left_alone(place: Place, status: str) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queue = await agent.add_queue(place.smp.address)
        await agent.work()
        place.ntf.subscriptions[queue.subscription_id] = status
        await agent.check()
    assert (queue.step, queue.status) == (QueueStep.CHECK, status)


async def test_a_new_device_token_replaces_the_old_one_and_keeps_what_is_followed(place: Place) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queue = await agent.add_queue(place.smp.address)
        await agent.work()
        before = agent.token.id, agent.token.secret, queue.subscription_id
        await agent.register(OTHER_TOKEN)
        assert (place.ntf.token.device_token, agent.token.step) == (OTHER_TOKEN, TokenStep.WAIT)
        await agent.pushed(place.ntf.token.verification)
        assert (agent.token.id, agent.token.secret, queue.subscription_id) == before
        assert await agent.status() == "ACTIVE"
    assert place.ntf.commands.count("SNEW") == 1


async def test_a_server_that_has_forgotten_the_token_gets_a_new_one(place: Place) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queue = await agent.add_queue(place.smp.address)
        await agent.work()
        place.ntf.tokens.clear()
        await agent.register(OTHER_TOKEN)
        await agent.pushed(place.ntf.token.verification)
        await agent.work()
        assert (await agent.status(), queue.step) == ("ACTIVE", QueueStep.CHECK)


async def test_periodic_mode_takes_all_notifiers_back_and_instant_mode_makes_new_ones(place: Place) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queue = await agent.add_queue(place.smp.address)
        await agent.work()
        await agent.register(TOKEN, AgentMode.PERIODIC)
        await agent.work()
        assert (queue.step, place.smp.queues.notifiers) == (None, {})
        later = await agent.add_queue(place.smp.address)
        await agent.work()
        assert later.step is None
        await agent.register(TOKEN, AgentMode.INSTANT)
        await agent.work()
        assert {queue.step, later.step} == {QueueStep.CHECK}


@pytest.mark.parametrize("step", [QueueStep.SMP_KEY, QueueStep.CREATE, QueueStep.SMP_DELETE])
async def test_what_was_next_is_done_after_a_restart(place: Place, step: QueueStep) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queue = await agent.add_queue(place.smp.address)
        await agent.work()
        queue.step = step
        agent.state.save()
    async with place.agent() as restarted:
        [kept] = restarted.state.queues
        assert (kept, restarted.token) == (queue, agent.token)
        await restarted.work()
        assert kept.step is (None if step is QueueStep.SMP_DELETE else QueueStep.CHECK)


async def test_the_items_of_two_queues_in_one_push_are_opened_in_two_layers(place: Place) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queues = [await agent.add_queue(place.smp.address) for _ in range(2)]
        await agent.work()
        for number, queue in enumerate(queues):
            await agent.smp.send(queue.server, queue.sender_id, b"message %d" % number)
        waiting = place.smp.queues.take_waiting(each.notifier_id for each in queues)
        items = [
            PushedItem(each.server.key_hash, *each.place, one.at, one.nonce, one.meta)
            for each in queues
            for one in waiting[each.notifier_id]
        ]
        text = ";".join(as_item(each) for each in items).encode()
        pushed = place.ntf.token.push("message", text)
        found = await agent.pushed(pushed)
        assert [each.queue for each in found] == queues
        fetched = [await agent.fetch(each) for each in found]
        assert [[body for _, body in each] for each in fetched] == [[b"message 0"], [b"message 1"]]
        assert [[message_id for message_id, _ in each] for each in fetched] == [[each.message_id] for each in found]
        assert [each.queue for each in await agent.pushed(pushed)] == [queues[1]]


async def test_a_push_sealed_for_somebody_else_is_not_opened(place: Place) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        pushed = place.ntf.token.verification
        agent.token.secret = b"x" * 32
        with pytest.raises(WireFault, match="not sealed"):
            await agent.pushed(pushed)


async def test_a_connection_that_has_ended_is_made_anew(place: Place) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        place.ntf.disconnect()
        try:
            status = await agent.status()
        except ConnectionLostError:
            status = await agent.status()
        assert status == "ACTIVE"


async def test_a_queue_that_is_removed_and_a_token_that_is_deleted_leave_nothing(place: Place) -> None:
    async with place.agent() as agent:
        await place.verified(agent)
        queues = [await agent.add_queue(place.smp.address) for _ in range(2)]
        await agent.work()
        await agent.remove_queue(queues[0])
        assert [*place.ntf.subscriptions] == [queues[1].subscription_id]
        await agent.delete_token()
        await agent.work()
    assert (place.ntf.tokens, place.smp.queues.notifiers) == ({}, {})


async def test_another_server_than_that_of_the_address_is_not_spoken_to(place: Place) -> None:
    address = place.ntf.address
    with pytest.raises(WireFault, match="another"):
        await SimplexClient.of_ntf(SimplexAddress(bytes(32), address.hosts, address.port))
    async with await SimplexClient.of_ntf(address) as client:
        await ping(client)
