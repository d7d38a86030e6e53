"""All that is on its way, and what follows when it was taken."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from clarion.metrics import Metric
from clarion.networks import network
from ingest.counts import Counts
from ingest.delivery.destinations import CommandQueues, EnvelopeQueue, LakeStream
from ingest.delivery.outbox import Budget, Entry, Outbox, send_forever
from ingest.delivery.outgoing import Outgoing, OutgoingCommand

if TYPE_CHECKING:
    from uuid import UUID

QUEUE_IN_FLIGHT = 8
"""Batches on their way to SQS at once."""
OVERSIZE_IN_FLIGHT = 4
"""Envelopes on their way to S3 at once, each by itself."""
OVERSIZE_SHARE = 2
"""Of the space for what the queue has not taken: so much there is for what S3 has not, of which one takes a megabyte."""
_QUEUE_BATCH = 10
QUEUE_LINGER_SECONDS = 0.02
"""So long an envelope waits for others that share its request."""
_PATIENCE_SECONDS = 0.05
"""Of what a push waits for anyway, as `Newest.delay_seconds` says: a task that is killed loses so much more of it."""
LAKE_IN_FLIGHT = 2
_LAKE_BATCH = 5_000
_COMMANDS_IN_FLIGHT = 1
COMMANDS_SHARE = 0.25
"""Of the space for what the queue has not taken: so much more there is for each network's commands."""
BRIEF_DRAIN_SECONDS = 3.0
"""So long a task that ends waits for its commands to be taken, and for what is oversize to be stored: until it hands
over, nobody takes in envelopes."""


def _patience(outgoing: Outgoing) -> float:
    return _PATIENCE_SECONDS if network(outgoing.network).newest else 0.0


class Listener(Protocol):
    def sent(self, outgoing: Outgoing) -> None:
        """The queue has it."""

    def recorded(self, outgoing: Outgoing) -> None:
        """The lake has it."""


class EnvelopeOutbox(Outbox[Outgoing]):
    """To the queue of envelopes. What is oversize goes to the outbox `oversize` first."""

    def __init__(self, oversize: Outbox[Outgoing], **named: Any) -> None:
        super().__init__(**named)
        self._oversize = oversize

    def add(self, entry: Outgoing) -> None:
        if entry.oversize:
            self._oversize.add(entry)
        else:
            self.add_stored(entry)

    def add_stored(self, entry: Outgoing) -> None:
        """Add what S3 has, if that is where it belongs."""
        super().add(entry)

    def holds(self, receipt: "UUID") -> bool:
        return super().holds(receipt) or self._oversize.holds(receipt)


class Outboxes:
    """The outboxes to the queue, to S3, to the lake, and to each network's queue of commands.

    `len` and `oldest` are of all that is here. A network's queue of commands delays nothing but that network's commands,
    and S3 nothing but what is oversize.
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
        """`capacity` are the bytes of what the queue has not taken, and of what the lake has not; `sources` divide them.

        S3 and commands have theirs beside it, see `OVERSIZE_SHARE` and `COMMANDS_SHARE`.
        """
        self._queue = queue
        self._lake = lake
        self._commands = commands
        self._counts = counts
        self._listener: Listener | None = None
        lake_budget, oversize_budget = Budget(capacity, sources), Budget(capacity * OVERSIZE_SHARE, sources)
        self.unrecorded = Outbox[Outgoing](
            to="lake",
            budget=lake_budget,
            most=_LAKE_BATCH,
            linger=lake_linger,
            taken=self._recorded,
        )
        self.oversize = Outbox[Outgoing](to="S3", budget=oversize_budget, most=1, linger=0.0, taken=self._stored)
        self.envelopes = EnvelopeOutbox(
            self.oversize,
            to="queue",
            budget=Budget(capacity, sources),
            beside=(oversize_budget, lake_budget),
            most=_QUEUE_BATCH,
            linger=QUEUE_LINGER_SECONDS,
            patience=_patience,
            taken=self._sent,
        )
        self.commands = {
            network: Outbox[OutgoingCommand](
                to=f"{network} commands",
                budget=Budget(int(capacity * COMMANDS_SHARE), sources),
                most=_QUEUE_BATCH,
                linger=QUEUE_LINGER_SECONDS,
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
        return len(self.oversize) + len(self.envelopes) + sum(map(len, self.commands.values()))

    @property
    def oldest(self) -> int | None:
        """When the oldest that is here was observed, in UNIX milliseconds."""
        commands = (outbox.oldest for outbox in self.commands.values())
        return min(filter(None, (self.oldest_envelope, *commands)), default=None)

    @property
    def oldest_envelope(self) -> int | None:
        """As `oldest`, without the commands."""
        outboxes = (self.oversize, self.envelopes, self.unrecorded)
        return min(filter(None, (outbox.oldest for outbox in outboxes)), default=None)

    async def send_forever(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send_forever(self.oversize, self._queue.store, OVERSIZE_IN_FLIGHT))
            tasks.create_task(send_forever(self.envelopes, self._queue.send, QUEUE_IN_FLIGHT))
            tasks.create_task(send_forever(self.unrecorded, self._lake.put, LAKE_IN_FLIGHT))
            for outbox in self.commands.values():
                tasks.create_task(send_forever(outbox, self._commands.send, _COMMANDS_IN_FLIGHT))

    async def drain(self) -> None:
        """Send what is here, and record in the lake what was sent.

        Commands are sent meanwhile; they, and S3, are waited for no longer than `BRIEF_DRAIN_SECONDS`.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._drain_envelopes())
            for outbox in self.commands.values():
                tasks.create_task(_drain_briefly(outbox))

    async def _drain_envelopes(self) -> None:
        await _drain_briefly(self.oversize)
        await self.envelopes.drain()
        await self.unrecorded.drain()

    def _stored(self, outgoing: Outgoing) -> None:
        self.envelopes.add_stored(outgoing)

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


async def _drain_briefly[E: Entry](outbox: Outbox[E]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(BRIEF_DRAIN_SECONDS):
            await outbox.drain()
