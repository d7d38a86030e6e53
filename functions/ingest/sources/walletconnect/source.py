"""How the relays of WalletConnect are followed."""

import asyncio
from collections.abc import Sequence
from ssl import create_default_context

from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect.settings import WalletConnectOptions
from clarion.networks.walletconnect.topics import FollowedTopic, RelaySubscriber
from clarion.tables import table_name
from ingest.downstream import Downstream
from ingest.settings import IngestSettings
from ingest.sources import NO_GAUGES, SourceSpec
from ingest.sources.walletconnect.relay import FollowedRelay, RelayAddress, RelayTimeouts

_POLL_SECONDS = 2.0
"""A read of each part of the index costs half a read unit."""
_RENEWALS = 12
"""Of nodes' connections for one of a relay's, which has to subscribe to all topics anew: half of its token's time."""


class RelaySources:
    gauges = NO_GAUGES

    def __init__(self, relays: Sequence[FollowedRelay]) -> None:
        self.sources = relays

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for relay in self.sources:
                tasks.create_task(relay.follow())


def open_relays(settings: IngestSettings, downstreams: Sequence[Downstream]) -> RelaySources:
    """Raise `pydantic.ValidationError` without the network's options, or `OSError` if the authorities can't be read."""
    for model in (FollowedTopic, RelaySubscriber):
        model.Meta.table_name = table_name(settings.table_prefix, model)
    options = WalletConnectOptions.model_validate(settings.options.get(WALLETCONNECT, {}))
    certificates = create_default_context(cafile=settings.ca_file) if settings.ca_file else None
    timeouts = RelayTimeouts(
        answer=settings.answer_seconds, renew=_RENEWALS * settings.renew_seconds, poll=_POLL_SECONDS
    )
    return RelaySources(
        [
            FollowedRelay(
                address=RelayAddress(url=url, project_id=options.relay_project_id, certificates=certificates),
                downstream=downstream,
                timeouts=timeouts,
            )
            for url, downstream in zip(settings.nodes[WALLETCONNECT], downstreams, strict=True)
        ]
    )


SOURCE_SPEC = SourceSpec(count=lambda settings: len(settings.nodes[WALLETCONNECT]), open=open_relays)
