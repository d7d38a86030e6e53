"""What was in force, and what claims were held, of a few: from the last snapshot before, and the lines since.

The snapshots are those of `pipeline.in_force.states` and `pipeline.reconciliation.claims`, by their names. Without one,
all lines are read.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from clarion.events import Event, LimitsLoaded
from clarion.subscription_events import RuleRef, RulesChanged, SubscriptionChanged
from pipeline.explain.cases import PossibleClaim
from pipeline.lake.commits import read_manifests
from pipeline.lake.lookup import Lookup, Sought, kind_of, of_row
from pipeline.lake.snapshots import (
    CLAIM_LOOKBACK_MS,
    CLAIMS,
    LATE_FILES_MS,
    SNAPSHOT_LEAD_MS,
    last_before,
    snapshot_days,
    snapshot_name,
    unread_hours,
)
from pipeline.period import Period, hour_start


@dataclass(frozen=True)
class Known:
    """As of a time `since`, and all changes from then on that arrived before `until`; earlier ones may be among them."""

    lookup: Lookup
    since: int
    until: int

    def subscriptions(self, ids: Collection[UUID]) -> list[SubscriptionChanged]:
        return self._subscriptions("subscription_id", ids)

    def subscriptions_of(self, client: bytes) -> list[SubscriptionChanged]:
        return self._subscriptions("client_id", {client})

    def rules_naming(self, keys: Collection[bytes]) -> list[RulesChanged]:
        last = self.lookup.rows(self._last(RulesChanged), "key", keys)
        return [*map(_rule, last), *self.lookup.naming(keys, self._since(RulesChanged))]

    def rules_of(self, subscriptions: Collection[UUID]) -> list[RulesChanged]:
        """A snapshot is sorted by key, so that for these all of it is looked through."""
        last = self.lookup.rows(self._last(RulesChanged), "subscription_id", subscriptions)
        since = self.lookup.find(RulesChanged, "subscription_id", subscriptions, self._since(RulesChanged))
        return [*map(_rule, last), *since]

    def limits(self) -> list[LimitsLoaded]:
        return self.lookup.every(LimitsLoaded, self._since(LimitsLoaded), also=self._last(LimitsLoaded))

    def claims(self, envelope_ids: Collection[bytes]) -> list[PossibleClaim]:
        """Those that snapshots have of earlier days."""
        days = snapshot_days(self.lookup.root, CLAIMS)
        near = [day for day in days if self.since - CLAIM_LOOKBACK_MS < day.end and day.start < self.until]
        paths = self._files(CLAIMS, near) if envelope_ids else []
        return [PossibleClaim.of_row(row) for row in self.lookup.rows(paths, "envelope_id", envelope_ids)]

    def _subscriptions(self, column: str, values: Collection[Sought]) -> list[SubscriptionChanged]:
        last = self.lookup.rows(self._last(SubscriptionChanged), column, values)
        since = self.lookup.find(SubscriptionChanged, column, values, self._since(SubscriptionChanged))
        return list(dict.fromkeys((*self.lookup.events(SubscriptionChanged, last), *since)))

    def _last(self, model: type[Event]) -> list[str]:
        """The files of the last snapshot before."""
        day = self._day(model)
        return self._files(kind_of(model), [day] if day else [])

    def _since(self, model: type[Event]) -> Period:
        """From the oldest hour on that may have changed after that snapshot was made."""
        if not (day := self._day(model)):
            return Period(0, self.until)
        read = self._read_at_last(kind_of(model), day)
        return Period(min([day.end - LATE_FILES_MS, *map(hour_start, read)]), self.until)

    def _read_at_last(self, name: str, day: Period) -> list[str]:
        """The hours that the day's snapshot has not in full, and that were sealed anew since."""
        unread = unread_hours(self.lookup.root, name, day)
        found = read_manifests(self.lookup.root, list(unread))
        return [each.hour for each in found if each.sealed_at != unread[each.hour]]

    def _day(self, model: type[Event]) -> Period | None:
        return last_before(self.lookup.root, kind_of(model), self.since - SNAPSHOT_LEAD_MS)

    def _files(self, name: str, days: Iterable[Period]) -> list[str]:
        found = read_manifests(self.lookup.root, [snapshot_name(name, day) for day in days])
        return [each.path for made in found for each in made.files]


def _rule(row: dict[str, Any]) -> RulesChanged:
    """A snapshot has a row for each rule, of whatever network its key is."""
    rule = RuleRef.model_validate({name: row[name] for name in RuleRef.model_fields})
    return of_row(RulesChanged, {**row, "network": "", "rules": [rule]})
