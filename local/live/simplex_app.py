"""SimpleX's app on a phone of the page: what it shows of a push, once it has asked the SMP server for the messages."""

import asyncio

from local.provider import ReceivedPush
from local.simplex.agent import Agent
from local.simplex.agent_state import AgentQueue
from local.simplex.phone import has
from local.simplex.stream import ConnectionLostError

VERIFIED = "The code that verifies this phone"
WOKEN = "Woken to look for messages, as it is from time to time"
KNOWN = "Nothing that the phone has not read yet"
_AGAIN_S = 0.5


class SimplexApp:
    """The agent's keys open what the push announces; the messages themselves never pass through Clarion."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._reading = asyncio.Lock()

    async def read(self, push: ReceivedPush) -> str:
        """Raises what the agent does, and `ValueError` for a push of no app like this."""
        if has("verification")(push):
            return VERIFIED
        if has("checkMessages")(push):
            return WOKEN
        if not has("message")(push):
            raise ValueError("no push of SimpleX")
        async with self._reading:
            announced = await self._agent.pushed(push.payload)
            messages = [message for each in announced for message in await self._agent.fetch(each)]
        return " · ".join(body.decode() for _, body in messages) or KNOWN


async def write(agent: Agent, queue: AgentQueue, text: str) -> None:
    """As the app of somebody who has the queue's address: while its server is away, it is tried again."""
    while True:
        try:
            return await agent.smp.send(queue.server, queue.sender_id, text.encode())
        except ConnectionLostError:
            await asyncio.sleep(_AGAIN_S)
