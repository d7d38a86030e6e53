"""What was in force, and what claims were held, of a few: from the last snapshot before, and the lines since.

The snapshots are those of `pipeline.known` and `pipeline.claims`, by their names. Without one, all lines are read.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from clarion.events import Event, LimitsLoaded, RuleRef, RulesChanged, SubscriptionChanged
from pipeline.commits import MANIFESTS
from pipeline.explain.cases import PossibleClaim
from pipeline.files import listed
from pipeline.lookup import Lookup, kind_of, of_row
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path, hour_start

SNAPSHOTS, CLAIMS = "snapshots", "claims"
GRACE_MS = HOUR_MS
"""A snapshot ends so long before what is judged by it: of what ended shortly before, it knows nothing more."""
LOOKED_BACK_MS = 2 * DAY_MS
"""An hour that a snapshot has read may change so long after it: those hours are read again."""
CLAIMED_BACK_MS = 45 * DAY_MS
"""A claim lasts 30 days at most, and is recorded 15 days later at most."""


@dataclass(frozen=True)
class Known:
    """As of a time `since`, and all changes from then on that arrived before `until`; earlier ones may be among them."""

    lookup: Lookup
    since: int
    until: int

    def subscriptions(self, ids: Collection[UUID]) -> list[SubscriptionChanged]:
        last = self.lookup.rows(self._last(SubscriptionChanged), "subscription_id", ids)
        since = self.lookup.find(SubscriptionChanged, "subscription_id", ids, self._since(SubscriptionChanged))
        return list(dict.fromkeys((*(of_row(SubscriptionChanged, row) for row in last), *since)))

    def rules_naming(self, keys: Collection[bytes]) -> list[RulesChanged]:
        last = self.lookup.rows(self._last(RulesChanged), "key", keys)
        return [*map(_rule, last), *self.lookup.naming(keys, self._since(RulesChanged))]

    def rules_of(self, subscription_id: UUID) -> list[RulesChanged]:
        """A snapshot is sorted by key, so that for these all of it is looked through."""
        last = self.lookup.rows(self._last(RulesChanged), "subscription_id", {subscription_id})
        since = self.lookup.find(RulesChanged, "subscription_id", {subscription_id}, self._since(RulesChanged))
        return [*map(_rule, last), *since]

    def limits(self) -> list[LimitsLoaded]:
        return self.lookup.every(LimitsLoaded, self._since(LimitsLoaded), also=self._last(LimitsLoaded))

    def claims(self, envelope_ids: Collection[bytes]) -> list[PossibleClaim]:
        """Those that snapshots have of earlier days."""
        around = Period(self.since - CLAIMED_BACK_MS, self.until)
        days = [day for day in self._days(CLAIMS) if around.start < hour_start(f"{day}/00") < around.end]
        paths = [path for day in days for path in self.lookup.named_files(f"{SNAPSHOTS}/{CLAIMS}/day={day}")]
        return [PossibleClaim.of_row(row) for row in self.lookup.rows(paths, "envelope_id", envelope_ids)]

    def _last(self, model: type[Event]) -> list[str]:
        """The files of the last snapshot before."""
        day = self._day(kind_of(model))
        return self.lookup.named_files(f"{SNAPSHOTS}/{kind_of(model)}/day={day}") if day else []

    def _since(self, model: type[Event]) -> Period:
        day = self._day(kind_of(model))
        return Period(hour_start(f"{day}/00") + DAY_MS - LOOKED_BACK_MS if day else 0, self.until)

    def _day(self, name: str) -> str | None:
        """The last that had ended in time and has a snapshot."""
        ended = hour_path(self.since - GRACE_MS - DAY_MS)[:10]
        return max((day for day in self._days(name) if day <= ended), default=None)

    def _days(self, name: str) -> list[str]:
        """Those that have a snapshot."""
        paths = listed(self.lookup.root, f"{MANIFESTS}/{SNAPSHOTS}/{name}")
        return [path.rpartition("=")[2].removesuffix(".json") for path in paths]


def _rule(row: dict[str, Any]) -> RulesChanged:
    """A snapshot has a row for each rule, of whatever network its key is."""
    rule = RuleRef.model_validate({name: row[name] for name in RuleRef.model_fields})
    return of_row(RulesChanged, {**row, "network": "", "rules": [rule]})
