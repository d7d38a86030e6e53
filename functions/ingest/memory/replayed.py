"""What replays have brought lately, as far as it may yet prove to be younger than they could show.

    brought by a replay ──▶ forwarded, as old as the time since that source was last live
        ├─ shown live, or by a replay that makes it young enough to ring ─▶ forwarded again, with the same receipt
        └─ `CALL_SECONDS` pass ───────────────────────────────────────────▶ forgotten: as a call it is stale

So a source whose replay shows a call before the others show it live does not silence it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clarion.channels import CALL_SECONDS
from ingest.filter.fingerprints import Fingerprint

if TYPE_CHECKING:
    from uuid import UUID

CAPACITY = 100_000
"""Envelopes, of some 250 bytes each here; beyond it the oldest is forgotten."""
_CALL_MS = CALL_SECONDS * 1000


@dataclass(slots=True)
class Observation:
    """When it was first observed; `replayed_since` is as in its message, and `receipt` is None until it is forwarded."""

    observed_at: int
    replayed_since: int | None
    receipt: "UUID | None" = None

    def is_made_younger(self, replayed_since: int | None) -> bool:
        """Whether a call would ring only by that time. At most twice: a live copy (None) leaves nothing to gain."""
        if self.replayed_since is None:
            return False
        if replayed_since is None:
            return True
        return self.replayed_since + _CALL_MS <= self.observed_at < replayed_since + _CALL_MS


class Replayed:
    """In the order of observation; times are UNIX milliseconds."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lately: dict[Fingerprint, Observation] = {}

    def __len__(self) -> int:
        return len(self._lately)

    def add(self, envelope: Fingerprint, observation: Observation) -> None:
        self._lately[envelope] = observation
        while len(self._lately) > self._capacity or self._oldest.observed_at + _CALL_MS <= observation.observed_at:
            del self._lately[next(iter(self._lately))]

    def forward(self, envelope: Fingerprint, receipt: "UUID", replayed_since: int) -> int | None:
        """Note its receipt, and return its `replayed_since` by now; the one given if it has been forgotten."""
        observation = self._lately.get(envelope)
        if observation is None:
            return replayed_since
        observation.receipt = receipt
        return observation.replayed_since

    def show_again(self, envelope: Fingerprint, replayed_since: int | None, now: int) -> Observation | None:
        """Note another showing, live if `replayed_since` is None. Return what is to be forwarded again for it."""
        observation = self._lately.get(envelope)
        if observation is None or observation.observed_at + _CALL_MS <= now:
            return None
        if not observation.is_made_younger(replayed_since):
            return None
        observation.replayed_since = replayed_since
        return observation if observation.receipt else None

    @property
    def _oldest(self) -> Observation:
        return next(iter(self._lately.values()))
