"""How busy the machine is: what a test measures in seconds is to be seen beside it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

_LOOK_SECONDS = 0.01


class Stalls:
    """`largest` is for how many seconds this process was kept from what it had to do, at most."""

    def __init__(self) -> None:
        self.largest = 0.0

    @classmethod
    @asynccontextmanager
    async def watched(cls) -> AsyncIterator[Self]:
        stalls = cls()
        watching = asyncio.create_task(stalls._watch())
        try:
            yield stalls
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)
            self.largest = max(self.largest, time.monotonic() - before - _LOOK_SECONDS)
