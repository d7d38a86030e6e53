"""What the page shows of a deployment: its lake as it grows, and what `clarion status` says."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

import boto3
from botocore.config import Config

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision
from console import status
from console.deployment import Deployment
from console.lake import READERS, Lake
from console.measures import History, history
from console.output import Report
from console.page.app import PageBackend
from console.page.broadcast import Reading
from console.page.items import RecentItems, Station
from console.page.lake_tail import LATEST, LakeTail
from console.why import MEANING, OBSERVED, UNDECIDED, UNTRIED

STATUS_MINUTES = 60
UNDER_WAY = {
    EnvelopeDecision.MATCHED: "active subscriptions have a rule for one of its keys",
    NotificationDecision.QUEUED: UNTRIED,
}
"""What does not end an item."""


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """Seconds between two looks at the lake, and at metrics, queues and alarms; `late` is as `LakeTail` has it."""

    lake: float
    status: float
    late: timedelta


REMOTE = Intervals(lake=15, status=60, late=LATEST)
"""Firehose writes once a minute or so, and CloudWatch is a minute behind."""
LOCAL = Intervals(lake=0.25, status=5, late=timedelta(seconds=30))
"""The emulator writes each record at once, or within some seconds on a busy machine."""


def about(title: str, where: str, *, local: bool = False) -> Mapping[str, Any]:
    """`local` are pages with senders, phones and switches; `queues` are the names of those at a station."""
    return {
        "title": title,
        "where": where,
        "local": local,
        "stations": list(Station),
        "queues": {Station.ENVELOPES: ["envelopes", "pages"], Station.PUSHES: list(Channel)},
        "meanings": {OBSERVED: UNDECIDED, **UNDER_WAY, **MEANING},
    }


@dataclass
class DeployedPage:
    """Blocking calls run in threads of their own; their clients are made once."""

    here: Deployment
    intervals: Intervals = REMOTE
    items: RecentItems = field(default_factory=RecentItems)
    passed_over: int = 0
    """Files of the lake, as `LakeTail` counts them."""
    refusal: Exception | None = None

    @property
    def backend(self) -> PageBackend:
        here = self.here
        return PageBackend(
            about(f"clarion {here.stage}", f"account {here.account} · {here.region}"), self.readings, self.why
        )

    @property
    def readings(self) -> list[Reading]:
        return [
            Reading("items", self.intervals.lake, self.read_items, snapshot=self.items.snapshot),
            Reading("lake", self.intervals.lake, self.read_gaps),
            Reading("status", self.intervals.status, self.read_status),
            Reading("history", self.intervals.status, self.read_history),
        ]

    async def read_items(self) -> list[dict[str, Any]] | None:
        """Raises what AWS says to the listing."""
        return await asyncio.to_thread(self._look) or None

    async def read_gaps(self) -> dict[str, int]:
        """What of the lake is not shown. Raises what AWS said to a file at the last look."""
        if self.refusal:
            raise self.refusal
        return {"passed_over": self.passed_over, "unreadable": self.items.unreadable}

    async def read_status(self) -> dict[str, Any]:
        found = await asyncio.to_thread(self._status)
        return found.model_dump(mode="json")

    async def read_history(self) -> dict[str, Any]:
        """Without figures where CloudWatch has none, as in the emulator: the page then counts its items."""
        found = await asyncio.to_thread(self._history)
        return found.model_dump()

    async def why(self, key: str) -> Report | None:
        """As `clarion why`, from what the page has read."""
        return await asyncio.to_thread(self.items.report, key)

    def _history(self) -> History:
        return history(self._clients.cloudwatch, self.here, STATUS_MINUTES)

    def _status(self) -> status.Status:
        return status.status_of(self.here, STATUS_MINUTES, self._clients)

    def _look(self) -> list[dict[str, Any]]:
        look = self._tail.look()
        changed = self.items.add(look.lines)
        self.passed_over, self.refusal = self._tail.passed_over, look.error
        return [item.model_dump(mode="json") for item in changed]

    @cached_property
    def _tail(self) -> LakeTail:
        s3 = boto3.client("s3", config=Config(max_pool_connections=READERS))
        return LakeTail(Lake(s3, self.here.lake), self.intervals.late)

    @cached_property
    def _clients(self) -> status.Clients:
        return status.Clients.made()
