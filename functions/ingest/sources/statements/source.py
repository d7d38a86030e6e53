"""How the nodes of the statement store are followed, and watched."""

import asyncio
from collections.abc import Sequence

from clarion.decisions import EnvelopeDecision
from clarion.networks import STATEMENTS, Envelope
from clarion.networks.statements.codec import ProofKind, Statement, digest
from ingest.downstream import Downstream
from ingest.settings import IngestSettings
from ingest.sources import NO_GAUGES, SourceSpec
from ingest.sources.statements.node import Node
from ingest.sources.statements.session import NodeTimeouts
from ingest.sources.statements.watch import SubscriptionWatch


class StatementSources:
    """All nodes at once: what one shows, the others show too, sooner or later."""

    gauges = NO_GAUGES

    def __init__(self, nodes: Sequence[Node], watch: SubscriptionWatch) -> None:
        self.sources = nodes
        self._watch = watch

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for node in self.sources:
                tasks.create_task(node.follow())
            tasks.create_task(self._watch.forever())


def open_nodes(settings: IngestSettings, downstreams: Sequence[Downstream]) -> StatementSources:
    timeouts = NodeTimeouts(
        answer=settings.answer_seconds, replay=settings.replay_seconds, whole_replay=settings.whole_replay_seconds
    )
    nodes = [
        Node(url=url, downstream=downstream, timeouts=timeouts)
        for url, downstream in zip(settings.nodes[STATEMENTS], downstreams, strict=True)
    ]
    watch = SubscriptionWatch(
        nodes,
        downstreams[0].is_crowded,
        window=settings.watch_seconds,
        oldest=settings.renew_seconds,
        quiet=settings.quiet_seconds,
    )
    return StatementSources(nodes, watch)


def screen(envelope: Envelope) -> EnvelopeDecision | None:
    """No rule can name the signer of a statement that is not signed with Sr25519."""
    statement = envelope.content
    if isinstance(statement, Statement) and (statement.proof is None or statement.proof.kind is not ProofKind.SR25519):
        return EnvelopeDecision.UNSUPPORTED_PROOF
    return None


SOURCE_SPEC = SourceSpec(
    count=lambda settings: len(settings.nodes[STATEMENTS]), open=open_nodes, identify=digest, screen=screen
)
