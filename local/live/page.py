"""The live page of `make run`: `console.page` over the emulator, with phones, senders and switches for trouble."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Any

from clarion.channels import Channel
from console import deployment
from console.page.app import ActionError, PageBackend
from console.page.broadcast import Reading
from console.page.deployed import LOCAL, DeployedPage
from console.page.server import serving
from infra.environments import EMULATOR
from local.live.phones import Phones
from local.live.senders import PageSender, senders
from local.live.troubles import Switches
from local.provider import Journal
from local.system import System

_WHERE = "emulated on this machine"
_PHONES_S, _CONTROLS_S = 0.2, 0.5
_PHONE_EVENTS_KEPT = 200
_FIRST_PUSH_S = 60.0
"""After so long the other senders wait for it no more."""


class LivePage:
    """Nothing is registered before somebody looks."""

    def __init__(self, system: System, deployed: DeployedPage) -> None:
        self._system = system
        self._deployed = deployed
        self._phones = Phones(_journals(system))
        self._senders = {sender.name: sender for sender in senders()}
        self._switches = Switches(system, self._phones)
        self._plays: list[asyncio.Task[None]] = []

    @property
    def backend(self) -> PageBackend:
        common = self._deployed.backend
        readings = [
            *common.readings,
            Reading("phones", _PHONES_S, self._phones.news, _PHONE_EVENTS_KEPT),
            Reading("controls", _CONTROLS_S, self._controls),
        ]
        actions = {"send": self._send, "switch": self._switch}
        return replace(
            common, about={**common.about, "local": True, "where": _WHERE}, readings=readings, actions=actions
        )

    async def end(self) -> None:
        try:
            await self._switches.end()
        finally:
            for play in self._plays:
                play.cancel()
            await asyncio.gather(*self._plays, return_exceptions=True)

    async def _controls(self) -> dict[str, Any]:
        if not self._plays:
            self._begin()
        return {
            "senders": [sender.as_json() for sender in self._senders.values()],
            "troubles": self._switches.as_json(),
            "phones": self._phones.as_json(),
        }

    def _begin(self) -> None:
        """The first sender's phones come first, so that it can send soon, and no other's function starts beside its own."""
        first, *others = self._senders.values()
        self._plays = [asyncio.create_task(self._play(first))]
        self._plays += [asyncio.create_task(self._play(other, after=first)) for other in others]

    async def _play(self, sender: PageSender, after: PageSender | None = None) -> None:
        if after:
            await after.texts.begun.wait()
            await self._until_pushed()
        try:
            await sender.play(self._system, self._phones, sender.texts)
        except Exception as error:  # noqa: BLE001 - whatever it is, the button says so, and the others go on
            sender.texts.fail(f"{type(error).__name__}: {error}")

    async def _until_pushed(self) -> None:
        """What the first sender has sent by itself is on its phones, or late."""
        journals = (self._system.apns.received, self._system.fcm.received, self._system.webpush.received)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_PUSH_S):
                await asyncio.gather(*(journal.until(1) for journal in journals))

    async def _send(self, asked: Mapping[str, Any]) -> None:
        if asked["sender"] not in self._senders:
            raise ActionError("no such sender")
        await self._senders[asked["sender"]].texts.put(str(asked["text"]))

    async def _switch(self, asked: Mapping[str, Any]) -> None:
        await self._switches.switch(asked["trouble"], on=asked["on"] is True)


def _journals(system: System) -> dict[Channel, Journal]:
    return {
        Channel.APNS: system.apns.received,
        Channel.FCM: system.fcm.received,
        Channel.WEBPUSH: system.webpush.received,
        Channel.WEBHOOK: system.webhook.received,
    }


@asynccontextmanager
async def live_page(system: System) -> AsyncIterator[str]:
    """The page's address."""
    with _aws_settings(system.deployment.emulator.variables):
        here = await asyncio.to_thread(deployment.find, EMULATOR.stage)
        page = LivePage(system, DeployedPage(here, LOCAL))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(page.end)
            yield await stack.enter_async_context(serving(page.backend))


@contextmanager
def _aws_settings(variables: Mapping[str, str]) -> Iterator[None]:
    """This process's, by which the operator's command line finds the emulator."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
