"""A phone with an agent, which APNs wakes."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from local.provider import Journal, ReceivedPush
from local.simplex.agent import Agent
from local.simplex.agent_state import AgentMode, AgentQueue
from local.simplex.pushes import AgentNotification


def has(name: str) -> Callable[[ReceivedPush], bool]:
    """Whether the push's data have this: `verification`, `message` or `checkMessages`."""
    return lambda push: name in push.payload.get("notificationData", {})


@dataclass
class SimplexPhone:
    """`device_token` is what APNs knows it by now; `pushes` are those that it has got, each once."""

    agent: Agent
    apns: Journal
    device_token: str = field(repr=False)
    pushes: list[ReceivedPush] = field(default_factory=list)

    async def register(self, mode: AgentMode = AgentMode.INSTANT) -> None:
        """Once this returns, the code that was pushed has been handed back."""
        await self.agent.register(self.device_token, mode)
        await self.agent.pushed((await self.push(has("verification"))).payload)

    async def replace_token(self, device_token: str) -> None:
        """As iOS does now and then: from then on the old one is dead."""
        self.device_token = device_token
        await self.agent.register(device_token, self.agent.token.mode)

    async def push(self, wanted: Callable[[ReceivedPush], bool]) -> ReceivedPush:
        """The next one that is wanted."""
        async for push in self._news():
            if wanted(push):
                return push
        raise LookupError("the journal has ended")

    async def notified_of(self, *queues: AgentQueue) -> Sequence[AgentNotification]:
        """What the first push says that has all of these among its queues."""
        async for push in self._news():
            found = await self.agent.pushed(push.payload) if has("message")(push) else []
            if {each.recipient_id for each in queues} <= {each.queue.recipient_id for each in found}:
                return found
        raise LookupError("the journal has ended")

    async def _news(self) -> AsyncIterator[ReceivedPush]:
        """Without what comes again by the same id."""
        while True:
            count = self.apns.count
            known = {_id(push) for push in self.pushes}
            for push in self.apns:
                if push.accepted and push.token == self.device_token and _id(push) not in known:
                    self.pushes.append(push)
                    yield push
                    break
            else:
                await self.apns.until(count + 1)


def _id(push: ReceivedPush) -> Any:
    return push.headers.get("apns-id", push.push_id)
