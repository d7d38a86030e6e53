"""The candidate filter: every (sender, topic) pair that any rule names, and whose rules changed lately.

It may hold more than the rules do, for removed rules stay until the next reading of the table, and never less.
"""

from collections.abc import Iterable, Iterator

from clarion.tables import GENERATION_BYTES
from ingest.fingerprints import Fingerprint, Fingerprints, of_pair
from ingest.rule_changes import RuleChanges


class Candidates:
    def __init__(self) -> None:
        self._pairs = Fingerprints()
        self.changes = RuleChanges()
        self.fresh_as_of = 0
        """UNIX milliseconds: rules written before are all here."""
        self.additions = 0
        """How many pairs were ever new; another number than before says that more may match."""

    def __len__(self) -> int:
        return len(self._pairs)

    def add(self, rule_keys: Iterable[bytes]) -> None:
        """Take in rules by their `rule_key`; the generation in it doesn't matter here."""
        for key in rule_keys:
            self.additions += self._pairs.add(of_pair(key[GENERATION_BYTES:]))

    def change(self, subscription_id: str, rule_key: bytes) -> None:
        """Take in a rule that was written just now."""
        self.add([rule_key])
        self.changes.add(of_pair(rule_key[GENERATION_BYTES:]), subscription_id)

    def pairs(self, sender: bytes, topics: Iterable[bytes]) -> list[Fingerprint]:
        """What to ask `match_any` for."""
        return [of_pair(sender + topic) for topic in topics]

    def match_any(self, pairs: list[Fingerprint]) -> bool:
        known = self._pairs
        for pair in pairs:  # noqa: SIM110 - `any` over a generator takes twice as long, and this is the hot path
            if pair in known:
                return True
        return False

    def begin_reading(self) -> None:
        """The table is read anew; what is added from now on is what will remain."""
        self._pairs.begin_round()

    def end_reading(self) -> Iterator[int]:
        """Forget, step by step, the pairs that no rule names any more."""
        return self._pairs.sweep()
