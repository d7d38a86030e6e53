"""All that is on its way, and what follows when it was taken."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from clarion.metrics import Metric
from clarion.networks import network
from ingest.counts import Counts
from ingest.delivery.destinations import CommandQueues, EnvelopeQueue, LakeStream
from ingest.delivery.outbox import Budget, Outbox, send_forever
from ingest.delivery.outgoing import Outgoing, OutgoingCommand

QUEUE_IN_FLIGHT = 8
"""Batches on their way to SQS at once."""
_QUEUE_BATCH = 10
_QUEUE_LINGER_SECONDS = 0.02
_PATIENCE_SECONDS = 0.05
"""Of what a push waits for anyway, as `Newest.delay_seconds` says: a task that is killed loses so much more of it."""
LAKE_IN_FLIGHT = 2
_LAKE_BATCH = 5_000
_COMMANDS_IN_FLIGHT = 1
COMMANDS_SHARE = 0.25
"""Of the space for what the queue has not taken: so much more there is for each network's commands."""
COMMANDS_DRAIN_SECONDS = 3.0
"""So long a task that ends waits for its commands to be taken: until it hands over, nobody takes in envelopes."""


def _patience(outgoing: Outgoing) -> float:
    return _PATIENCE_SECONDS if network(outgoing.network).newest else 0.0


class Listener(Protocol):
    def sent(self, outgoing: Outgoing) -> None:
        """The queue has it."""

    def recorded(self, outgoing: Outgoing) -> None:
        """The lake has it."""


class Outboxes:
    """The outboxes to the queue, to the lake, and to each network's queue of commands.

    `len` and `oldest` are of all that is here. A network's queue of commands delays nothing but that network's commands.
    """

    def __init__(  # noqa: PLR0913 - each by name
        self,
        *,
        queue: EnvelopeQueue,
        lake: LakeStream,
        commands: CommandQueues,
        command_networks: Iterable[str],
        capacity: int,
        sources: int,
        lake_linger: float,
        counts: Counts,
    ) -> None:
        """`capacity` are the bytes of what the queue has not taken, and of what the lake has not; `sources` divide them."""
        self._queue = queue
        self._lake = lake
        self._commands = commands
        self._counts = counts
        self._listener: Listener | None = None
        lake_budget = Budget(capacity, sources)
        self.unrecorded = Outbox[Outgoing](
            to="lake",
            budget=lake_budget,
            most=_LAKE_BATCH,
            linger=lake_linger,
            taken=self._recorded,
        )
        self.envelopes = Outbox[Outgoing](
            to="queue",
            budget=Budget(capacity, sources),
            next_budget=lake_budget,
            most=_QUEUE_BATCH,
            linger=_QUEUE_LINGER_SECONDS,
            patience=_patience,
            taken=self._sent,
        )
        self.commands = {
            network: Outbox[OutgoingCommand](
                to=f"{network} commands",
                budget=Budget(int(capacity * COMMANDS_SHARE), sources),
                most=_QUEUE_BATCH,
                linger=_QUEUE_LINGER_SECONDS,
                taken=lambda outgoing: outgoing.taken(),
            )
            for network in command_networks
        }

    def report_to(self, listener: Listener) -> None:
        self._listener = listener

    def __len__(self) -> int:
        return self.unsent + len(self.unrecorded)

    @property
    def unsent(self) -> int:
        return len(self.envelopes) + sum(map(len, self.commands.values()))

    @property
    def oldest(self) -> int | None:
        """When the oldest that is here was observed, in UNIX milliseconds."""
        commands = (outbox.oldest for outbox in self.commands.values())
        return min(filter(None, (self.oldest_envelope, *commands)), default=None)

    @property
    def oldest_envelope(self) -> int | None:
        """As `oldest`, without the commands."""
        return min(filter(None, (self.unrecorded.oldest, self.envelopes.oldest)), default=None)

    async def send_forever(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send_forever(self.envelopes, self._send, QUEUE_IN_FLIGHT))
            tasks.create_task(send_forever(self.unrecorded, self._lake.put, LAKE_IN_FLIGHT))
            for outbox in self.commands.values():
                tasks.create_task(send_forever(outbox, self._commands.send, _COMMANDS_IN_FLIGHT))

    async def drain(self) -> None:
        """Send what is here, and record in the lake what was sent.

        Commands are sent meanwhile, and are waited for no longer than `COMMANDS_DRAIN_SECONDS`.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._drain_envelopes())
            for outbox in self.commands.values():
                tasks.create_task(_drain_commands(outbox))

    async def _drain_envelopes(self) -> None:
        await self.envelopes.drain()
        await self.unrecorded.drain()

    def _send(self, batch: Sequence[Outgoing]) -> list[Outgoing]:
        unstored = self._queue.store_oversize(batch)
        sendable = [outgoing for outgoing in batch if outgoing not in unstored]
        return unstored + self._queue.send(sendable) if sendable else unstored

    def _sent(self, outgoing: Outgoing) -> None:
        if outgoing.look_id:
            self._counts[Metric.SECOND_LOOKS] += 1
        elif not outgoing.repeat_id:
            self._counts[Metric.ENVELOPES_FORWARDED] += 1
            self.unrecorded.add(outgoing)
        if self._listener is not None:
            self._listener.sent(outgoing)

    def _recorded(self, outgoing: Outgoing) -> None:
        if self._listener is not None:
            self._listener.recorded(outgoing)


async def _drain_commands(outbox: Outbox[OutgoingCommand]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(COMMANDS_DRAIN_SECONDS):
            await outbox.drain()
