"""The scenes of SimpleX: an app's agent, SMP servers, and Clarion as the notification server between them."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from clarion.clock import now_ms
from clarion.networks import SIMPLEX
from clarion.wake_ups import slot_of
from local.cast import Cast
from local.provider import ReceivedPush
from local.scenes import QUIET, Outcome, Unexpected, expect
from local.simplex.agent import INTERVAL_MIN, Agent
from local.simplex.agent_state import AgentMode, AgentQueue, AgentState
from local.simplex.client import CommandRefusedError
from local.simplex.phone import SimplexPhone, has
from local.simplex.pushes import AgentNotification
from local.simplex.smp_server import StandInSmpServer
from local.simplex.stream import ConnectionLostError, SimplexAddress
from local.system import PATIENCE, System

_PUSHED = {"delivered", "coalesced"}
"""What becomes of a push whose item a phone gets: its own, or another's that brings it along."""


@dataclass(frozen=True)
class SimplexUser:
    """A phone, and the SMP server that its owner likes best."""

    system: System
    phone: SimplexPhone
    smp: StandInSmpServer
    address: SimplexAddress
    """Of the notification server."""

    @property
    def agent(self) -> Agent:
        return self.phone.agent

    async def followed_queues(self, count: int) -> list[AgentQueue]:
        """New ones, once the notification server follows them."""
        queues = [await self.agent.add_queue(self.smp.address) for _ in range(count)]
        await self.agent.work()
        await self.until_followed(*queues)
        return queues

    async def until_followed(self, *queues: AgentQueue) -> None:
        """Both servers agree on it."""
        async with asyncio.timeout(PATIENCE):
            await self.smp.until(lambda: {each.notifier_id for each in queues} <= self.smp.subscribed)
            while {each.status for each in queues} != {"ACTIVE"}:
                await asyncio.sleep(QUIET)
                await self.agent.check()
                await self.agent.work()

    async def send(self, *queues: AgentQueue) -> None:
        """As somebody whom the user has told where to write to."""
        for queue in queues:
            await self.agent.smp.send(queue.server, queue.sender_id, b"for your eyes only")

    async def notified_of(self, *queues: AgentQueue) -> Sequence[AgentNotification]:
        async with asyncio.timeout(PATIENCE):
            return await self.phone.notified_of(*queues)

    async def read(self, found: Sequence[AgentNotification]) -> None:
        """Fetch what the push has announced, and compare the ids that came by both ways."""
        for each in found:
            messages = await self.agent.fetch(each)
            expect(each.message_id in dict(messages), True, "the message that the push has announced")
            expect({body for _, body in messages}, {b"for your eyes only"}, "what is in it")


@asynccontextmanager
async def simplex_user(
    system: System, device_token: str, *, smp: int = 0, version: int = 3
) -> AsyncIterator[SimplexUser]:
    """One whose app has just been installed, and is deleted at the end; `version` is the newest of NTF that it speaks."""
    address = await asyncio.to_thread(system.simplex.address, system.deployment)
    with TemporaryDirectory() as folder:
        async with Agent(AgentState.loaded(Path(folder) / "agent.json"), address, version=version) as agent:
            phone = SimplexPhone(agent, system.apns.received, device_token)
            yield SimplexUser(system, phone, system.simplex.smp[smp], address)
            if agent.token_is_registered:
                async with asyncio.timeout(PATIENCE):
                    # Another agent that has proven the device has ended this one's token; a test may have stopped the server.
                    with suppress(CommandRefusedError, ConnectionLostError):
                        await agent.delete_token()


async def two_queues(system: System, _: Cast) -> Outcome:
    """Two contacts write at once: one push has both, sealed for the phone, and in it for each queue once more."""
    async with simplex_user(system, "51" * 32) as user:
        async with asyncio.timeout(PATIENCE):
            await user.phone.register()
        expect(await user.agent.status(), "ACTIVE", "the token's status")
        queues = await user.followed_queues(2)
        start = time.time()
        await user.send(*queues)
        found = await user.notified_of(*queues)
        await user.read(found)
        return await _outcome(user, start, notifications=2)


async def a_new_token(system: System, _: Cast) -> Outcome:
    """What comes before the new token is verified is kept, and pushed right after."""
    async with simplex_user(system, "52" * 32) as user:
        async with asyncio.timeout(PATIENCE):
            await user.phone.register()
        first, second = await user.followed_queues(2)
        start = time.time()
        await user.phone.replace_token("53" * 32)
        await user.send(first)
        async with asyncio.timeout(PATIENCE):
            await user.smp.until(lambda: not user.smp.queues.has_waiting(first.notifier_id))
            verification = await user.phone.push(has("verification"))
        await asyncio.sleep(QUIET)
        await user.agent.pushed(verification.payload)
        await user.read(await user.notified_of(first))
        await user.send(second)
        await user.read(await user.notified_of(second))
        return await _outcome(user, start, notifications=2)


async def a_server_restarts(system: System, _: Cast) -> Outcome:
    """It forgets who follows its queues, but not what waits in them."""
    async with simplex_user(system, "54" * 32, smp=1) as user:
        async with asyncio.timeout(PATIENCE):
            await user.phone.register()
        [queue] = await user.followed_queues(1)
        start = time.time()
        await user.smp.restart(lambda: user.smp.queues.put(queue.sender_id, b"for your eyes only", notify=True))
        await user.until_followed(queue)
        await user.read(await user.notified_of(queue))
        return await _outcome(user, start, notifications=1)


async def now_and_then(system: System, _: Cast) -> Outcome:
    """The user saves battery: nobody follows the queue any more, and the phone wakes now and then to look itself."""
    async with simplex_user(system, "55" * 32) as user:
        async with asyncio.timeout(PATIENCE):
            await user.phone.register()
        [queue] = await user.followed_queues(1)
        await user.agent.register(user.phone.device_token, AgentMode.PERIODIC)
        await user.agent.work()
        expect(queue.notifier_id, b"", "the queue's notifier")
        start = time.time()
        await user.send(queue)
        await asyncio.to_thread(_wake, system, user.agent.token.id)
        async with asyncio.timeout(PATIENCE):
            push = await user.phone.push(has("checkMessages"))
        expect(push.headers["apns-push-type"], "background", "the kind of push")
        expect(
            [body for _, body in await user.agent.smp.fetch(queue)], [b"for your eyes only"], "what the phone fetches"
        )
        return Outcome(Counter(delivered=1), [push], push.at - start)


def _wake(system: System, token_id: bytes) -> None:
    """As EventBridge does in the minute in which the token is due."""
    found = system.client("dynamodb").query(
        TableName=f"{system.deployment.outputs.table_prefix}subscriptions",
        IndexName="by_client",
        KeyConditionExpression="client_id = :token",
        ExpressionAttributeValues={":token": {"B": b"simplex:" + token_id}},
    )
    [subscription] = found["Items"]
    now, phase = now_ms() // 60_000, int(slot_of(subscription["subscription_id"]["S"], INTERVAL_MIN).partition(":")[2])
    due = now + (phase - now) % INTERVAL_MIN
    event = {"time": datetime.fromtimestamp(due * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    name = f"{system.deployment.outputs.table_prefix}schedule"
    answer = system.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event))
    expect("FunctionError" in answer, False, "an error of the scheduler")


async def _outcome(user: SimplexUser, start: float, *, notifications: int) -> Outcome:
    """What was decided since on this network, of which nobody else makes use meanwhile, and the push with messages."""
    shown = [push for push in user.phone.pushes if has("message")(push) and push.at >= start]
    for push in shown:
        _expect_sealed(push)
    decisions = await _decisions(user.system, start, notifications)
    return Outcome(decisions, shown[-1:], shown[0].at - start)


def _expect_sealed(push: ReceivedPush) -> None:
    aps = push.payload["aps"]
    expect(aps["alert"], "Encrypted message or another app event", "what the push shows")
    expect({*push.payload["notificationData"]}, {"nonce", "message"}, "what it has for the app")


async def _decisions(system: System, start: float, notifications: int) -> Counter[str]:
    """Once as many pushes of messages have come to an end as were queued."""
    async for events in system.lake.growing(PATIENCE):
        mine = [each for each in events if each.get("network") == SIMPLEX and each["at"] >= start * 1000]
        decisions = Counter(each["decision"] for each in mine if "envelope_id" in each and "decision" in each)
        if decisions["queued"] >= notifications and sum(decisions[each] for each in _PUSHED) >= notifications:
            return decisions
    raise Unexpected(f"the lake has fewer than {notifications} pushes")
