"""An HTTP transport that interrupts requests, or loses their answers."""

from collections import deque
from enum import Enum, auto
from typing import override

import httpx


class Interruption(Enum):
    """What may happen to a request on its way."""

    UNREACHABLE = auto()
    SERVER_ERROR = auto()
    ANSWER_LOST = auto()
    """The service has handled the request, though its answer does not arrive."""


class InterruptedTransport(httpx.AsyncBaseTransport):
    """The next requests meet `interruptions`, one each; those that follow are answered."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self.interruptions = deque[Interruption]()
        self._transport = transport

    @override
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        interruption = self.interruptions.popleft() if self.interruptions else None
        if interruption is Interruption.UNREACHABLE:
            raise httpx.ConnectError("unreachable", request=request)
        if interruption is Interruption.SERVER_ERROR:
            return httpx.Response(500)
        response = await self._transport.handle_async_request(request)
        if interruption is Interruption.ANSWER_LOST:
            await response.aread()
            raise httpx.ReadTimeout("the answer is lost", request=request)
        return response

    @override
    async def aclose(self) -> None:
        await self._transport.aclose()
