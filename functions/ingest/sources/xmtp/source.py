"""How the nodes of XMTP are followed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from grpc import ssl_channel_credentials

from clarion.networks import XMTP, Envelope
from clarion.networks.xmtp import TopicMessage
from ingest.downstream import Downstream
from ingest.settings import IngestSettings
from ingest.sources import NO_GAUGES, SourceSpec
from ingest.sources.xmtp.connection import NodeAddress
from ingest.sources.xmtp.node import NodeBounds, XmtpNode

_CHECK_SECONDS = 1.0
_MARGIN_MS = 30 * 60 * 1000
"""How far a node's time may be ahead of ours, and what has to be left of an envelope's life: so long match may take.
What expired on its way there would be remembered here, and no other node could show it with its true time."""
_HTTPS = 443


class XmtpSources:
    """All nodes at once: what one misses while it is connected anew, another shows."""

    gauges = NO_GAUGES

    def __init__(self, nodes: Sequence[XmtpNode]) -> None:
        self.sources = nodes

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for node in self.sources:
                tasks.create_task(node.follow())
            tasks.create_task(self._check_forever())

    async def _check_forever(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            for node in self.sources:
                node.check()


def open_nodes(settings: IngestSettings, downstreams: Sequence[Downstream]) -> XmtpSources:
    """Raise `OSError` if the authorities can't be read."""
    credentials = ssl_channel_credentials(Path(settings.ca_file).read_bytes() if settings.ca_file else None)
    budget = settings.budget(XMTP)
    bounds = NodeBounds(
        message_bytes=budget.message_bytes,
        bytes_per_second=budget.bytes_per_second,
        answer=settings.answer_seconds,
        quiet=settings.quiet_seconds,
        longest_quiet=settings.renew_seconds,
    )
    return XmtpSources(
        [
            XmtpNode(
                name=f"https://{urlsplit(url).netloc}",
                address=NodeAddress(target=_target(url), credentials=credentials),
                downstream=downstream,
                bounds=bounds,
            )
            for url, downstream in zip(settings.nodes[XMTP], downstreams, strict=True)
        ]
    )


def is_timely(envelope: Envelope, now_ms: int) -> bool:
    """Nodes replay nothing, so what one shows is new. The time is not part of the id: the first to show it decides."""
    message = envelope.content
    if not isinstance(message, TopicMessage):
        return False
    latest_ms = now_ms + _MARGIN_MS
    return message.timestamp_ns // 1_000_000 <= latest_ms <= message.expires_at * 1000


def _target(url: str) -> str:
    """The host by its name, so that nothing else is read into it: https://github.com/grpc/grpc/blob/master/doc/naming.md"""
    parts = urlsplit(url)
    return f"dns:///{parts.netloc if parts.port else f'{parts.netloc}:{_HTTPS}'}"


# An envelope's id is a hash of what has to be decoded for it: known by it alone, an envelope costs 2.5 µs in place of 6,
# beside the 100 µs that it costs to read. So there is no `identify`.
SOURCE_SPEC = SourceSpec(count=lambda settings: len(settings.nodes[XMTP]), open=open_nodes, is_timely=is_timely)
