"""Trouble by a switch: what goes wrong while it is on, and what the system does about it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from clarion.channels import Channel
from clarion.networks import SIMPLEX, STATEMENTS
from console.page.app import ActionError
from local.apns_trouble import troubled_token
from local.device import Device, forge, topic_of
from local.live.phones import PhoneOnPage, Phones, statement_text
from local.live.senders import ALICE, CHAT, token_of
from local.live.simplex_app import SimplexApp
from local.provider import InjectedFault
from local.simplex_story import simplex_user
from local.system import System

_FORGED_S = 1.0
_FLOOD_S = 0.2
_SPAM = topic_of("a flood on the page")


@dataclass(frozen=True)
class TroubleSwitch:
    """`answer` is what the system does about it, `words` are the decisions by which that is seen."""

    name: str
    title: str
    answer: str
    words: tuple[str, ...]
    cause: Callable[[System, Phones], AbstractAsyncContextManager[None]]

    def as_json(self, *, on: bool) -> dict[str, Any]:
        return {"name": self.name, "title": self.title, "answer": self.answer, "words": self.words, "on": on}


@asynccontextmanager
async def _provider_down(system: System, _: Phones) -> AsyncIterator[None]:
    outages = {
        system.apns: "ServiceUnavailable",
        system.fcm: "UNAVAILABLE",
        system.webpush: "ServiceUnavailable",
        system.webhook: "ServiceUnavailable",
    }
    for provider, failure in outages.items():
        provider.outage = failure
    try:
        yield
    finally:
        for provider in outages:
            provider.outage = None


_dead_phones = count(1)


@asynccontextmanager
async def _dead_token(system: System, phones: Phones) -> AsyncIterator[None]:
    """Phones whose apps are gone are registered: one is written to, the other is sent the code that verifies it."""
    number = next(_dead_phones)
    sender, owner = Device(f"a friend of number {number}"), Device(f"without the app, number {number}")
    token, simplex_token = (troubled_token(InjectedFault("Unregistered"), 2 * number + kind) for kind in range(2))
    phones.add(token, PhoneOnPage("A phone without the app", STATEMENTS, Channel.APNS, statement_text))
    await system.register(owner, Channel.APNS, token, (sender.public_key, CHAT))
    await system.store.submit(sender.statement(CHAT, data=b"is anybody there?"))
    async with simplex_user(system, simplex_token) as user:
        read = SimplexApp(user.agent).read
        phones.add(simplex_token, PhoneOnPage("A phone without SimpleX", SIMPLEX, Channel.APNS, read))
        await user.agent.register(simplex_token)
        yield


@asynccontextmanager
async def _forged_signature(system: System, _: Phones) -> AsyncIterator[None]:
    alice = Device(ALICE)

    async def forge_on() -> None:
        for number in count(1):
            await system.store.inject(forge(alice.statement(CHAT, data=f"not from Alice, {number}".encode())))
            await asyncio.sleep(_FORGED_S)

    async with _background(forge_on):
        yield


@asynccontextmanager
async def _flood(system: System, phones: Phones) -> AsyncIterator[None]:
    """From somebody whom Dave once allowed."""
    dave, sender, token = Device("Dave, on the page"), Device("a flooder"), token_of("Dave")
    phones.add(token, PhoneOnPage("Dave's iPhone", STATEMENTS, Channel.APNS, statement_text))
    await _register_once(system, dave, token, sender)

    async def flood_on() -> None:
        for number in count(1):
            await system.store.submit(sender.statement(_SPAM, data=f"buy now, {number}".encode()))
            await asyncio.sleep(_FLOOD_S)

    async with _background(flood_on):
        yield


async def _register_once(system: System, owner: Device, token: str, sender: Device) -> None:
    async with system.api_of(owner) as api:
        known = await api.list_subscriptions()
    if not known:
        await system.register(owner, Channel.APNS, token, (sender.public_key, _SPAM))


@asynccontextmanager
async def _node_gone(system: System, _: Phones) -> AsyncIterator[None]:
    node, *_others = system.xmtp.nodes
    await node.stop()
    try:
        yield
    finally:
        await node.start()


@asynccontextmanager
async def _smp_server_gone(system: System, _: Phones) -> AsyncIterator[None]:
    server, *_others = system.simplex.smp
    await server.stop()
    try:
        yield
    finally:
        await server.start()


@asynccontextmanager
async def _background(work: Callable[[], Any]) -> AsyncIterator[None]:
    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


TROUBLES = (
    TroubleSwitch(
        "provider-down",
        "All providers are down",
        "Each push waits in its queue and is tried again, later each time; nothing is lost. A call alone is not rung late: "
        "after 30 seconds it ends.",
        ("retry", "stale"),
        _provider_down,
    ),
    TroubleSwitch(
        "dead-token",
        "A phone has removed the app",
        "APNs says so at the first push, of a message or of SimpleX's code: the token and its subscription end, and "
        "nothing is sent there again.",
        ("token_gone",),
        _dead_token,
    ),
    TroubleSwitch(
        "forged-signature",
        "Somebody forges Alice's signature",
        "The signature is verified before any rule is read: what is forged is dropped, and wakes nobody.",
        ("bad_signature",),
        _forged_signature,
    ),
    TroubleSwitch(
        "flood",
        "A sender floods a phone",
        "The sender's thirty in a minute pass; what follows is dropped for two minutes. Other senders still get through.",
        ("rate_limited",),
        _flood,
    ),
    TroubleSwitch(
        "node-gone",
        "One of XMTP's nodes is gone",
        "Ingest follows the other node meanwhile, and comes back to this one. What Bo sends still arrives, once.",
        (),
        _node_gone,
    ),
    TroubleSwitch(
        "smp-server-gone",
        "Erin's SimpleX server is gone",
        "No other has her queue: what her contact writes waits with the contact. Once the server is back, ingest follows "
        "the queue again, within ten seconds or so, and Erin is notified.",
        (),
        _smp_server_gone,
    ),
)


class Switches:
    """Which troubles are on; each is changed after the other."""

    def __init__(self, system: System, phones: Phones) -> None:
        self._system = system
        self._phones = phones
        self._troubles = {trouble.name: trouble for trouble in TROUBLES}
        self._on: dict[str, AsyncExitStack] = {}
        self._changing = asyncio.Lock()

    def as_json(self) -> list[dict[str, Any]]:
        return [trouble.as_json(on=name in self._on) for name, trouble in self._troubles.items()]

    async def switch(self, name: str, *, on: bool) -> None:
        """Raises `ActionError` for one that there is not."""
        if name not in self._troubles:
            raise ActionError("no such trouble")
        async with self._changing:
            if on and name not in self._on:
                await self._begin(name)
            elif not on and name in self._on:
                await self._end(name)

    async def end(self) -> None:
        for name in list(self._on):
            await self.switch(name, on=False)

    async def _end(self, name: str) -> None:
        """It counts as on until it has ended."""
        await self._on[name].aclose()
        del self._on[name]

    async def _begin(self, name: str) -> None:
        stack = AsyncExitStack()
        await stack.enter_async_context(self._troubles[name].cause(self._system, self._phones))
        self._on[name] = stack
