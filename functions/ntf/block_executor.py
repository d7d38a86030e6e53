"""Executes the commands of one block: several at once, those of one entity in the order in which they stand."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from clarion.metrics import Metric
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import PONG, NtfReply, NtfRequest, refusal
from clarion.networks.simplex.ntf_commands import PlainCommand, RegisterToken, ReplaceToken, SubscribeQueue
from ntf.bounds import Peer
from ntf.counts import Counts
from ntf.pace import Pace, take_all

_FAILED = frozenset({refusal(ErrorType.STORE), refusal(ErrorType.INTERNAL)})


class CommandHandler(Protocol):
    def execute(self, request: NtfRequest) -> bytes:
        """The content of the reply. Called by several threads at once; raises nothing."""


class BlockExecutor:
    """One for the whole task: it bounds how many commands wait for AWS at once, and tokens by the pace of `registering`."""

    def __init__(self, handler: CommandHandler, counts: Counts, registering: Pace, *, threads: int) -> None:
        self._handler = handler
        self._counts = counts
        self._registering = registering
        self._pool = ThreadPoolExecutor(threads, "command")

    async def execute(self, block: Sequence[NtfRequest | NtfReply], peer: Peer) -> Sequence[NtfReply]:
        """The replies, in the order of the requests, which `peer` has sent."""
        replies: dict[int, NtfReply] = {}

        async def answer(numbers: Sequence[int]) -> None:
            for number in numbers:
                replies[number] = await self._reply(block[number], peer)

        async with asyncio.TaskGroup() as tasks:
            for numbers in _by_entity(block):
                tasks.create_task(answer(numbers))
        return [replies[number] for number in range(len(block))]

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    async def _reply(self, request: NtfRequest | NtfReply, peer: Peer) -> NtfReply:
        self._counts[Metric.NTF_COMMANDS] += 1
        if isinstance(request, NtfReply):
            return request
        if request.command is PlainCommand.PING:
            return request.reply(PONG)
        loop = asyncio.get_running_loop()
        paces = (peer.registering, self._registering)
        if isinstance(request.command, RegisterToken | ReplaceToken) and not take_all(paces, loop.time()):
            self._counts[Metric.NTF_REGISTRATIONS_REFUSED] += 1
            return request.reply(refusal(ErrorType.QUOTA))
        content = await loop.run_in_executor(self._pool, self._handler.execute, request)
        self._counts[Metric.NTF_COMMANDS_FAILED] += content in _FAILED
        return request.reply(content)


def _by_entity(block: Sequence[NtfRequest | NtfReply]) -> Sequence[Sequence[int]]:
    """The places in the block of what has to be done one after another."""
    places: dict[bytes, list[int]] = {}
    for number, request in enumerate(block):
        places.setdefault(_entity(request), []).append(number)
    return list(places.values())


def _entity(request: NtfRequest | NtfReply) -> bytes:
    """A queue is subscribed to for a token, which other commands name as their entity."""
    if isinstance(request, NtfReply):
        return request.entity_id
    command = request.command
    return command.token_id if isinstance(command, SubscribeQueue) else request.transmission.entity_id
