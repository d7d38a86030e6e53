"""Which task forwards which envelopes: a shard is one of 256, by an envelope's id, and each has an owner among the tasks.

    id ──first byte──▶ shard ──the task that scores highest for it──▶ owner

Each task computes this for itself from the names of the tasks at work. When one ends, only its shards move, spread over
the others; one task alone owns all. No two tasks need agree: until they do, both forward, and match's claims refuse what
comes twice.
"""

from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b

from ingest.filter.fingerprints import Fingerprint

SHARDS = 256
_SCORE_BYTES = 8


class Shards:
    """As the task called `me` sees them; nobody's until they are divided."""

    def __init__(self, me: str) -> None:
        self._me = me
        self.divide(())

    @property
    def owned(self) -> int:
        """How many are this task's."""
        return self.owners.count(self._me)

    @property
    def records(self) -> bool:
        """Whether this task is the one that saves what was handled: the first shard's owner is."""
        return self.owns(0)

    def owner_of(self, fingerprint: Fingerprint) -> str | None:
        return self.owners[fingerprint % SHARDS]

    def owns(self, fingerprint: Fingerprint) -> bool:
        return self.owners[fingerprint % SHARDS] == self._me

    def divide(self, tasks: Collection[str]) -> None:
        """Divide them among `tasks`, which are at work."""
        self.tasks = frozenset(tasks)
        self.owners = owners_of(self.tasks)


@lru_cache(maxsize=16)
def owners_of(tasks: frozenset[str]) -> tuple[str | None, ...]:
    """The owner of each shard; None if there are no tasks.

    By rendezvous hashing: https://en.wikipedia.org/wiki/Rendezvous_hashing
    """
    return tuple(candidate_for(str(shard), tasks) for shard in range(SHARDS))


def candidate_for(part: str, tasks: Collection[str]) -> str | None:
    """The one of `tasks` that should do this part of the work; None if there are none."""
    return max(tasks, key=lambda task: _score(task, part), default=None)


def _score(task: str, part: str) -> bytes:
    return blake2b(f"{task}/{part}".encode(), digest_size=_SCORE_BYTES).digest()
