"""What a phone with SimpleX shows on the live page, once its app has fetched what a push announces."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from clarion.channels import Channel
from clarion.networks import SIMPLEX
from clarion.networks.simplex.payload import WAKE_UP
from local.live.phones import ENCRYPTED, PhoneOnPage, Phones
from local.live.simplex_app import KNOWN, VERIFIED, WOKEN, SimplexApp, write
from local.provider import Journal, ReceivedPush
from local.simplex.agent import Agent
from local.simplex.agent_state import AgentQueue
from local.simplex.pushes import PushedItem, as_item
from tests.local.test_simplex_agent import TOKEN, Place, place_in


@dataclass
class PhoneWithSimplex:
    place: Place
    agent: Agent
    queue: AgentQueue
    phones: Phones
    journal: Journal

    def push(self) -> dict[str, Any]:
        """What the notification server pushes of the newest message."""
        *_, newest = self.place.smp.queues.take_waiting([self.queue.notifier_id])[self.queue.notifier_id]
        item = PushedItem(self.queue.server.key_hash, *self.queue.place, newest.at, newest.nonce, newest.meta)
        return self.place.ntf.token.push("message", as_item(item).encode())

    async def shown(self, payload: Any) -> str:
        """Of a push that comes now."""
        self.journal.note(ReceivedPush(self.journal.count, 1.0, TOKEN, {}, payload, 200, None, "an-id"))
        [push] = await self.phones.news() or []
        assert (push["phone"], push["network"]) == ("Erin's iPhone", SIMPLEX)
        return str(push["text"])


@pytest.fixture
async def phone(tmp_path: Path) -> AsyncIterator[PhoneWithSimplex]:
    # Nothing that waits is sent to whoever follows the queue: a test pushes it itself.
    async with place_in(tmp_path) as place, place.agent() as agent:
        await place.verified(agent)
        queue = await agent.add_queue(place.smp.address)
        await agent.work()
        journal = Journal()
        phones = Phones({Channel.APNS: journal})
        phones.add(TOKEN, PhoneOnPage("Erin's iPhone", SIMPLEX, Channel.APNS, SimplexApp(agent).read))
        yield PhoneWithSimplex(place, agent, queue, phones, journal)


async def test_the_message_is_fetched_where_it_waits_and_shown_once(phone: PhoneWithSimplex) -> None:
    await write(phone.agent, phone.queue, "hello")
    pushed = phone.push()
    assert "hello" not in str(pushed)
    assert await phone.shown(pushed) == "hello"
    assert await phone.shown(pushed) == KNOWN


async def test_messages_that_one_push_announces_are_shown_together(phone: PhoneWithSimplex) -> None:
    for text in ("one", "two"):
        await write(phone.agent, phone.queue, text)
    assert await phone.shown(phone.push()) == "one · two"


async def test_a_code_is_shown_as_such_and_handed_back_by_nobody_who_only_looks(phone: PhoneWithSimplex) -> None:
    before = list(phone.place.ntf.commands)
    assert await phone.shown(phone.place.ntf.token.verification) == VERIFIED
    assert phone.place.ntf.commands == before


async def test_a_push_that_only_wakes_the_app_is_shown_as_such(phone: PhoneWithSimplex) -> None:
    assert await phone.shown(json.loads(WAKE_UP)) == WOKEN


@pytest.mark.parametrize("payload", [{}, {"notificationData": {"message": "odd", "nonce": "odd"}}, {"aps": {}}])
async def test_what_is_not_sealed_for_the_phone_is_shown_as_encrypted(phone: PhoneWithSimplex, payload: Any) -> None:
    assert await phone.shown(payload) == ENCRYPTED


async def test_while_the_server_is_away_the_phone_shows_that_there_is_something(phone: PhoneWithSimplex) -> None:
    await write(phone.agent, phone.queue, "before")
    pushed = phone.push()
    await phone.place.smp.stop()
    assert await phone.shown(pushed) == ENCRYPTED
    later = asyncio.create_task(write(phone.agent, phone.queue, "after"))
    await asyncio.wait([later], timeout=0.1)
    assert not later.done()
    await phone.place.smp.start()
    await later
    assert await phone.shown(phone.push()) == "before · after"
