"""SimpleX through the deployed stack: an agent and SMP servers that were written from the facts alone."""

import asyncio
import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from clarion.networks import SIMPLEX
from local.apns_trouble import troubled_token
from local.provider import InjectedFault
from local.scenes import QUIET
from local.simplex.agent import Agent
from local.simplex.agent_state import AgentQueue, AgentState, QueueStep, TokenStep
from local.simplex.client import CommandRefusedError, SimplexClient
from local.simplex.codec import b64, short, u16
from local.simplex.keys import AuthKey, auth_key
from local.simplex.ntf_commands import NtfConversation, ping
from local.simplex.phone import has
from local.simplex.stream import NTF_ALPN, NTF_BLOCK, BlockStream, ConnectionLostError
from local.simplex.transmissions import WireTransmission
from local.simplex_story import SimplexUser, simplex_user
from local.system import PATIENCE, System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

_numbers = count(0x5100)


@pytest.fixture
def token() -> str:
    """A device's own."""
    return f"{next(_numbers):04x}" * 16


async def verified(user: SimplexUser, queues: int = 0) -> list[AgentQueue]:
    """Its queues, which are followed."""
    async with asyncio.timeout(PATIENCE):
        await user.phone.register()
    return await user.followed_queues(queues) if queues else []


async def until_status(agent: Agent, queue: AgentQueue, status: str) -> None:
    """Of the queue's subscription, without what the agent would do about it."""
    async with asyncio.timeout(PATIENCE):
        while queue.status != status:
            await agent.check()
            await asyncio.sleep(QUIET)


async def until_held_back(system: System, least: int) -> int:
    """How many of SimpleX's messages the limit has held back so far."""
    async for events in system.lake.growing(PATIENCE):
        limited = [event for event in events if event.get("decision") == "rate_limited" and event["network"] == SIMPLEX]
        if len(limited) >= least:
            return len(limited)
    raise TimeoutError(f"{least} are not held back")


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_an_agent_of_any_version_is_pinged_and_registers(system: System, token: str, version: int) -> None:
    address = await asyncio.to_thread(system.simplex.address, system.deployment)
    async with await SimplexClient.of_ntf(address, most=version) as client:
        assert client.greeting.version == version
        await ping(client)
        with pytest.raises(CommandRefusedError, match="CMD UNKNOWN"):
            await client.ask(b"NONE")
    async with simplex_user(system, token, version=version) as user:
        await verified(user)
        assert await user.agent.status() == "ACTIVE"


async def test_who_wants_another_server_or_version_is_turned_away(system: System) -> None:
    address = await asyncio.to_thread(system.simplex.address, system.deployment)
    for answer in (u16(3) + short(bytes(32)), u16(4) + short(address.key_hash)):
        stream = await BlockStream.connected("localhost", int(address.port), NTF_BLOCK, NTF_ALPN)
        await stream.read()
        await stream.write(answer)
        with pytest.raises(ConnectionLostError):
            await stream.read()
        stream.abort()


@pytest.mark.parametrize("kind", [Ed448PrivateKey, X25519PrivateKey])
async def test_a_token_may_have_a_key_of_another_kind(
    system: System, token: str, kind: type[Ed448PrivateKey | X25519PrivateKey]
) -> None:
    key: AuthKey = kind.generate()
    async with simplex_user(system, token) as user:
        await user.agent.register(token, key=key)
        async with asyncio.timeout(PATIENCE):
            await user.agent.pushed((await user.phone.push(has("verification"))).payload)
        [queue] = await user.followed_queues(1)
        await user.send(queue)
        await user.read(await user.notified_of(queue))


async def test_to_register_again_brings_the_same_code_and_only_the_code_activates(system: System, token: str) -> None:
    async with simplex_user(system, token) as user, asyncio.timeout(PATIENCE):
        await user.agent.register(token)
        first = user.agent.token.id, user.agent.token.secret
        one = await user.phone.push(has("verification"))
        user.agent.token.code, user.agent.token.step = b"x" * 32, TokenStep.VERIFY
        with pytest.raises(CommandRefusedError, match="AUTH"):
            await user.agent.register(token)
        user.agent.token.step = TokenStep.WAIT
        await user.agent.register(token)
        assert (user.agent.token.id, user.agent.token.secret) == first
        another = await user.phone.push(has("verification"))
        assert one.payload["notificationData"]["nonce"] != another.payload["notificationData"]["nonce"]
        await user.agent.pushed(one.payload)
        await user.agent.pushed(another.payload)
        assert await user.agent.status() == "ACTIVE"
        assert one.payload["aps"] == {"content-available": 1}
        assert (one.headers["apns-push-type"], one.headers["apns-priority"]) == ("background", "5")


async def test_a_token_is_confirmed_once_apns_has_taken_the_code_and_takes_no_queues_before_it_is_verified(
    system: System, token: str
) -> None:
    async with simplex_user(system, token) as user, asyncio.timeout(PATIENCE):
        await user.agent.register(token)
        while await user.agent.status() != "CONFIRMED":
            await asyncio.sleep(QUIET)
        user.agent.token.active = True
        await user.agent.add_queue(user.smp.address)
        with pytest.raises(CommandRefusedError, match="AUTH"):
            await user.agent.work()


@pytest.mark.parametrize(
    ("reason", "status"),
    [("BadDeviceToken", "BAD"), ("ExpiredToken", "EXPIRED"), ("Unregistered", "UNREGISTERED")],
)
async def test_a_dead_token_says_why(system: System, reason: str, status: str) -> None:
    dead = troubled_token(InjectedFault(reason), next(_numbers))
    async with simplex_user(system, dead) as user, asyncio.timeout(PATIENCE):
        await user.agent.register(dead)
        while await user.agent.status() != f"INVALID,{status}":
            await asyncio.sleep(QUIET)


async def test_of_two_agents_on_one_device_the_one_verified_last_stays(system: System, token: str) -> None:
    async with simplex_user(system, token) as first, simplex_user(system, token) as second:
        await verified(first)
        await second.agent.register(token)
        async with asyncio.timeout(PATIENCE):
            second.phone.pushes += first.phone.pushes
            await second.agent.pushed((await second.phone.push(has("verification"))).payload)
        assert await second.agent.status() == "ACTIVE"
        with pytest.raises(CommandRefusedError, match="AUTH"):
            await first.agent.status()


async def test_a_queue_that_somebody_else_follows_has_ended_and_is_made_anew(system: System, token: str) -> None:
    async with simplex_user(system, token) as user:
        [queue] = await verified(user, 1)
        notifier_id = queue.notifier_id
        async with await SimplexClient.of_smp(user.smp.address) as thief:
            await thief.ask(b"NSUB", notifier_id, auth_key(queue.notifier_key))
            await until_status(user.agent, queue, "END")
            assert queue.step is QueueStep.SMP_KEY
        await user.agent.work()
        await user.until_followed(queue)
        assert queue.notifier_id != notifier_id
        await user.send(queue)
        await user.read(await user.notified_of(queue))


async def test_a_notifier_that_was_deleted_shows_as_deleted(system: System, token: str) -> None:
    async with simplex_user(system, token) as user:
        [queue] = await verified(user, 1)
        await user.agent.smp.disable(queue)
        await until_status(user.agent, queue, "DELETED")


@pytest.mark.parametrize(("refusal", "status"), [(b"ERR AUTH", "AUTH"), (b"ERR SERVICE", "SERVICE")])
async def test_what_an_smp_server_refuses_shows_as_the_status(
    system: System, token: str, refusal: bytes, status: str
) -> None:
    async with simplex_user(system, token) as user:
        await verified(user)
        queue = await user.agent.add_queue(user.smp.address)
        await user.agent.smp.enable(queue)
        queue.step = QueueStep.CREATE
        user.smp.refusals[queue.notifier_id] = refusal
        await user.agent.work()
        await until_status(user.agent, queue, status)


async def test_a_subscription_is_the_same_for_the_same_queue_and_nobody_elses(system: System, token: str) -> None:
    async with simplex_user(system, token) as user, simplex_user(system, f"{next(_numbers):04x}" * 16) as other:
        [queue] = await verified(user, 1)
        await verified(other)
        async with await SimplexClient.of_ntf(user.address) as client:
            mine, theirs = (NtfConversation(client, each.agent.token) for each in (user, other))
            assert await mine.subscribe(queue) == queue.subscription_id
            with pytest.raises(CommandRefusedError, match="AUTH"):
                await theirs.subscribe(queue)
            assert await theirs.statuses([queue]) == ["ERR AUTH"]
            await mine.unsubscribe(queue)
            assert await mine.statuses([queue]) == ["ERR AUTH"]


async def test_many_checks_go_in_few_blocks_and_each_finds_its_answer(system: System, token: str) -> None:
    async with simplex_user(system, token) as user:
        queues = await verified(user, 9)
        await user.agent.check()
        assert {each.status for each in queues} == {"ACTIVE"}


async def test_a_subscription_reaches_the_smp_server_within_two_seconds(system: System, token: str) -> None:
    """Where the machine has time for it: what is measured is bounded by more, for it may be busy."""
    async with simplex_user(system, token) as user:
        await verified(user, 1)
        queue = await user.agent.add_queue(user.smp.address)
        await user.agent.work()
        async with asyncio.timeout(20):
            await user.smp.until(lambda: queue.notifier_id in user.smp.subscribed)


async def test_what_comes_while_ingest_is_away_is_pushed_once_it_is_back_and_no_subscription_ends(
    system: System, token: str
) -> None:
    async with simplex_user(system, token) as user:
        [queue] = await verified(user, 1)
        ends = user.smp.counts["END"]
        await asyncio.to_thread(system.ingest.close)
        try:
            await user.smp.until(lambda: queue.notifier_id not in user.smp.subscribed)
            await user.send(queue)
        finally:
            system.ingest.enter_context(system.ingesting(log="ingest-simplex.log"))
        await user.read(await user.notified_of(queue))
        await user.until_followed(queue)
        assert user.smp.counts["END"] == ends


async def test_a_task_that_takes_over_leaves_no_end(system: System, token: str) -> None:
    async with simplex_user(system, token) as user:
        [queue] = await verified(user, 1)
        await system.replace_ingest(system.ingesting(log="ingest-simplex-next.log"))
        await user.smp.until(lambda: queue.notifier_id in user.smp.subscribed)
        await user.send(queue)
        await user.read(await user.notified_of(queue))
        await user.agent.check()
        assert queue.status in {"ACTIVE", "INACTIVE"}


async def test_an_agent_goes_on_after_both_it_and_the_server_were_restarted(
    system: System, token: str, tmp_path: Path
) -> None:
    async with simplex_user(system, token) as user:
        [queue] = await verified(user, 1)
        user.agent.state.file = tmp_path / "agent.json"
        user.agent.state.save()
        await asyncio.to_thread(system.ntf.close)
        with pytest.raises(ConnectionLostError):
            await user.agent.status()
        await asyncio.to_thread(system.ntf.enter_context, system.serving_ntf(log="ntf-next.log"))
        async with Agent(AgentState.loaded(tmp_path / "agent.json"), user.address) as restarted:
            assert await restarted.status() == "ACTIVE"
            await restarted.check()
            assert [each.status for each in restarted.state.queues] == ["ACTIVE"]
            assert restarted.state.queues == [queue]


async def test_of_a_flood_in_one_queue_some_are_held_back_and_another_queue_still_wakes(
    system: System, token: str
) -> None:
    async with simplex_user(system, token) as user:
        flooding, other = await verified(user, 2)
        await user.send(*[flooding] * 32)
        count = await until_held_back(system, 1)
        await user.send(flooding)
        await until_held_back(system, count + 1)
        await user.send(other)
        await user.read(await user.notified_of(other))


async def test_a_token_that_is_deleted_is_gone_with_what_was_followed_for_it(system: System, token: str) -> None:
    async with simplex_user(system, token) as user:
        [queue] = await verified(user, 1)
        key = auth_key(user.agent.token.key)
        token_id = user.agent.token.id
        await user.agent.delete_token()
        async with await SimplexClient.of_ntf(user.address) as client:
            asked = client.authorized(WireTransmission.asking(b"TCHK", token_id), key)
            [answer] = await client.exchange([asked])
            assert answer.command == b"ERR AUTH"
        before = system.apns.received.count
        await user.send(queue)
        await asyncio.sleep(2 + 2 * QUIET)
        assert not any(push.token == token for push in system.apns.received.since(before))


async def test_no_secret_of_an_agent_is_kept_or_said_in_the_clear(system: System, token: str) -> None:
    async with simplex_user(system, token) as user:
        [queue] = await verified(user, 1)
        await user.send(queue)
        await user.read(await user.notified_of(queue))
        agent_token = user.agent.token
        secrets = [agent_token.secret, agent_token.code, queue.notifier_key[-32:], queue.notifier_secret]
        kept = await asyncio.to_thread(_all_kept, system)
        for secret in secrets:
            for written in (secret, secret.hex().encode(), b64(secret).rstrip("=").encode()):
                assert written not in kept
        assert re.search(rb"simplex", kept), "there is something to look at"


def _all_kept(system: System) -> bytes:
    """The rows of all tables, and all logs."""
    dynamodb = system.client("dynamodb")
    rows = [
        _flat(item)
        for page in dynamodb.get_paginator("list_tables").paginate()
        for table in page["TableNames"]
        for found in dynamodb.get_paginator("scan").paginate(TableName=table)
        for item in found["Items"]
    ]
    logs = [each.read_bytes() for each in system.deployment.emulator.folder.glob("*.log")]
    return b"\n".join((*rows, *logs))


def _flat(value: Any) -> bytes:
    match value:
        case bytes():
            return value
        case dict():
            return b" ".join(_flat(each) for each in (*value, *value.values()))
        case list():
            return b" ".join(map(_flat, value))
    return str(value).encode()
