"""Where envelopes come from: one package for each network, which follows what the deployment names.

    source ──take──▶ intake ──▶ filter, memory ──▶ outboxes
                        ▲                             │
             Downstream ┘                             └──▶ queue of envelopes, lake; queue of the network's commands

A source shows raw envelopes and commands. It knows its protocol; what an envelope means is read by its network. To add
one: a package here with a `SOURCE_SPEC`, and its line in `SOURCES`. Only the sources of the networks that
a deployment enables are imported.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from clarion.metrics import Metric
from clarion.networks import SIMPLEX, STATEMENTS, WALLETCONNECT, XMTP
from ingest.counts import Counts, OfNetwork
from ingest.faults import traces

if TYPE_CHECKING:
    from clarion.decisions import EnvelopeDecision
    from clarion.networks import Envelope
    from ingest.downstream import Downstream
    from ingest.lease.progress import SourceProgress
    from ingest.settings import IngestSettings
    from ingest.sources.replays import Replays

SOURCES = {
    STATEMENTS: "ingest.sources.statements.source",
    XMTP: "ingest.sources.xmtp.source",
    WALLETCONNECT: "ingest.sources.walletconnect.source",
    SIMPLEX: "ingest.sources.simplex.source",
}
"""By a network's name, the module whose `SOURCE_SPEC` says how its sources are followed."""
NO_GAUGES: "Mapping[Metric, int]" = MappingProxyType({})
FAILED_SECONDS = 10.0
"""After which the sources of a network are followed again that a bug has stopped."""

log = logging.getLogger(__name__)


class SourceFault(Exception):  # noqa: N818 - what a source did, which is expected and survived
    """The source broke its protocol; the text says how, in our words and none of the source's."""


class SourceLost(SourceFault):
    """The connection broke, or never came about."""


class EnvelopeSource(Protocol):
    """A node, a stream or a relay that is followed for as long as the task runs."""

    @property
    def name(self) -> str:
        """For people to read, without secrets."""

    @property
    def replays(self) -> "Replays | None":
        """What is believed of its replays; None if it replays nothing, so that nobody waits for it to."""

    @property
    def connected(self) -> bool: ...

    @property
    def remaining(self) -> int:
        """What it still owes of a replay, as far as it says."""


class SourceGroup(Protocol):
    """The sources of one network."""

    @property
    def sources(self) -> Sequence[EnvelopeSource]: ...

    @property
    def gauges(self) -> Mapping[Metric, int]:
        """What is measured of this network alone."""

    async def follow(self) -> None:
        """Follow all of them. What a source does is survived; nothing is raised but a cancellation, or a bug.

        After a bug it is called again.
        """


class SourceSpec(NamedTuple):
    """How a network's sources are followed."""

    count: "Callable[[IngestSettings], int]"
    """How many there are."""
    open: "Callable[[IngestSettings, Sequence[Downstream]], SourceGroup]"
    """Called with a place to hand things on to for each of them."""
    identify: Callable[[bytes], bytes] | None = None
    """An envelope's id, if it can be known from the raw envelope without decoding: what is known, which most is, costs no
    decoding then."""
    screen: "Callable[[Envelope], EnvelopeDecision | None] | None" = None
    """Why an envelope can be let go without the cost of its signature; None if that must be verified."""
    is_timely: "Callable[[Envelope, int], bool] | None" = None
    """Whether the time that a node gave an envelope fits with ours, in UNIX milliseconds. If not, the node is at fault: the
    envelope is counted and not remembered, so that another node may still show it with its true time."""
    exclusive: bool = False
    """Whether what it shows is shown to this task alone, and only for what rules ask for: so all of that is forwarded,
    whosever shard it is of."""


def source_spec(network: str) -> SourceSpec:
    """Raises `LookupError` for a network without sources."""
    found: SourceSpec = import_module(SOURCES[network]).SOURCE_SPEC
    return found


class FollowedNetwork(NamedTuple):
    """A network's sources, and how far each has shown what it has."""

    network: str
    group: SourceGroup
    progress: "Sequence[SourceProgress]"


class FollowedSources:
    """The sources of all networks, as soon as they are opened."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._networks: Sequence[FollowedNetwork] = ()

    def open(self, networks: Sequence[FollowedNetwork]) -> None:
        self._networks = networks

    def __iter__(self) -> Iterator[EnvelopeSource]:
        for followed in self._networks:
            yield from followed.group.sources

    @property
    def connected(self) -> list[str]:
        return [source.name for source in self if source.connected]

    @property
    def connected_of(self) -> dict[str, int]:
        """How many of each network are connected."""
        return {
            followed.network: sum(source.connected for source in followed.group.sources) for followed in self._networks
        }

    @property
    def gauges(self) -> dict[str | OfNetwork, int]:
        """What the networks measure of themselves."""
        return {metric: value for followed in self._networks for metric, value in followed.group.gauges.items()}

    @property
    def remaining(self) -> int:
        """What they still owe of their replays."""
        return sum(source.remaining for source in self)

    @property
    def replays(self) -> "dict[str, list[Replays]]":
        """By their network's name; none where nothing is replayed."""
        return {
            followed.network: [source.replays for source in followed.group.sources if source.replays]
            for followed in self._networks
        }

    async def follow(self) -> None:
        """Each network by itself: a bug in one of them is logged and counted, and stops no other."""
        async with asyncio.TaskGroup() as tasks:
            for followed in self._networks:
                tasks.create_task(self._keep_following(followed))

    async def _keep_following(self, followed: FollowedNetwork) -> None:
        while True:
            try:
                await followed.group.follow()
            except Exception as error:  # noqa: BLE001 - a bug in any network's code
                self._counts[Metric.INTERNAL_ERRORS] += 1
                log.error("sources failed", extra={"network": followed.network, "errors": traces(error)})  # noqa: TRY400 - its text may quote secrets
            for progress in followed.progress:
                progress.lost()
            await asyncio.sleep(FAILED_SECONDS)
