"""A token that changes hands, through the deployed stack: who is woken before, meanwhile and after."""

import asyncio

import pytest

from clarion.networks.statements.codec import digest
from clarion_client import Problem
from local.device import Device, topic_of
from local.scenes import QUIET, decisions_on, shown_by_phones
from local.system import PATIENCE, System
from tests.system.test_wake_ups import change, status_of

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

CHAT = topic_of("a phone that changes hands")


async def code_at(system: System, token: str, subscription: str, *, after: str | None = None) -> str:
    """The code that the phone with this token gets for this subscription: the first, or another one than `after`."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for push in system.apns.received:
                own = push.payload.get("clarion", {})
                if push.token == token and own.get("subscription_id") == subscription and own["code"] != after:
                    assert push.headers["apns-push-type"] == "background"
                    return str(own["code"])
            await system.apns.received.until(system.apns.received.count + 1)


async def woken_by(system: System, alice: Device, text: bytes, token: str, *, queued: int) -> int:
    """How many pushes the phone shows of Alice's statement, which so many subscriptions want."""
    raw = alice.statement(CHAT, data=text)
    await system.store.inject(raw)
    await decisions_on(system, {digest(raw).hex()}, pushes=queued, notifications=queued)
    await asyncio.sleep(QUIET)
    received = (push for push in system.apns.received if push.token == token)
    return sum(text.hex() in str(push.payload) for push in shown_by_phones(received))


async def test_who_signs_in_on_the_same_phone_takes_its_token_over(system: System) -> None:
    alice, before, after = (
        Device("Alice, of a shared phone"),
        Device("Bob, who signs out"),
        Device("Carol, who signs in"),
    )
    token, rule = "70" * 32, (alice.public_key, CHAT)
    old = await system.register(before, "apns", token, rule)
    new = await system.register(after, "apns", token, rule)
    async with system.api_of(after) as api:
        [pending] = await api.list_subscriptions()
        assert (pending["status"], len(pending["rules"])) == ("pending", 1)
    assert await woken_by(system, alice, b"meanwhile", token, queued=1) == 1, "Bob alone is woken"

    code = await code_at(system, token, new)
    async with system.api_of(after) as api:
        proven = {"subscription_id": new, "status": "active"}
        assert await api.prove_token(new, code) == proven
        assert await api.prove_token(new, code) == proven, "the answer may have been lost"

    async with system.api_of(before) as api:
        [ended] = await api.list_subscriptions()
    assert (ended["subscription_id"], ended["status"], ended["statusReason"]) == (old, "invalid", "replaced")
    assert await woken_by(system, alice, b"afterwards", token, queued=1) == 1, "Carol alone is woken"


async def test_a_squatter_keeps_no_token_from_the_phone_that_has_it(system: System) -> None:
    owner, squatter, token = Device("Dave, who has the phone"), Device("Eve, who knows his token"), "71" * 32
    squatted = await system.register(squatter, "apns", token)
    name = await system.register(owner, "apns", token)
    async with system.api_of(owner) as api:
        proven = await api.prove_token(name, await code_at(system, token, name))
    assert proven["status"] == "active"

    again = await system.register(squatter, "apns", token)
    async with system.api_of(squatter) as api:
        with pytest.raises(Problem, match="wrong-code"):
            await api.prove_token(again, "A" * 43)
        states = {one["subscription_id"]: one["status"] for one in await api.list_subscriptions()}
    assert states == {squatted: "invalid", again: "pending"}
    stolen = await code_at(system, token, again)
    async with system.api_of(owner) as api:
        with pytest.raises(Problem, match="no-subscription"):
            await api.prove_token(again, stolen)
        [row] = await api.list_subscriptions()
    assert (row["subscription_id"], row["status"]) == (name, "active")


async def test_a_code_that_has_expired_is_replaced_by_another(system: System) -> None:
    holder, client, token = Device("Gina, who had the phone"), Device("Hugo, who was slow"), "74" * 32
    await system.register(holder, "apns", token)
    name = await system.register(client, "apns", token)
    late = await code_at(system, token, name)
    await change(system, name, proof_until={"N": "1"})
    async with system.api_of(client) as api:
        with pytest.raises(Problem, match="code-expired"):
            await api.prove_token(name, late)
        await api.request_code(name)
        good = await code_at(system, token, name, after=late)
        with pytest.raises(Problem, match="wrong-code"):
            await api.prove_token(name, late)
        assert (await api.prove_token(name, good))["status"] == "active"


async def test_of_two_that_prove_a_token_at_the_same_time_one_has_it(system: System) -> None:
    alice, holder, token = Device("Alice, who writes to both"), Device("Ivan, who had the phone"), "75" * 32
    rivals = [Device("Judy, who has the phone"), Device("Kim, who would have it")]
    held = await system.register(holder, "apns", token)
    names = [await system.register(each, "apns", token, (alice.public_key, CHAT)) for each in rivals]
    codes = [await code_at(system, token, name) for name in names]

    async def prove(device: Device, name: str, code: str) -> str:
        async with system.api_of(device) as api:
            return (await api.prove_token(name, code))["status"]

    answers = await asyncio.gather(*map(prove, rivals, names, codes), return_exceptions=True)
    outcomes = {answer.kind if isinstance(answer, Problem) else answer for answer in answers}
    assert "active" in outcomes
    assert outcomes <= {"active", "contended"}

    status = {name: await status_of(system, device, name) for device, name in zip(rivals, names, strict=True)}
    assert list(status.values()).count("active") == 1
    assert await status_of(system, holder, held) == "invalid"
    assert await woken_by(system, alice, b"to one", token, queued=1) == 1


async def test_a_device_that_gets_another_token_keeps_its_rules(system: System) -> None:
    alice, bob = Device("Alice, who writes on"), Device("Bob, whose token changes")
    name = await system.register(bob, "apns", "72" * 32, (alice.public_key, CHAT))
    async with system.api_of(bob) as api:
        assert (await api.replace_token(name, "73" * 32))["status"] == "active"
    assert await woken_by(system, alice, b"to the new token", "73" * 32, queued=1) == 1
