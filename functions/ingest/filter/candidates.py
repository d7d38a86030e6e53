"""The candidate filter: every key that any rule names, and whose rules changed lately.

It may hold more than the rules do, for removed rules stay until the next reading of the table, and never less.
"""

from collections.abc import Iterable, Iterator, Sequence

from clarion.tables import GENERATION_BYTES
from ingest.filter.fingerprints import Fingerprint, Fingerprints, of_key
from ingest.filter.rule_changes import RuleChanges


class CandidateFilter:
    def __init__(self) -> None:
        self._keys = Fingerprints()
        self.changes = RuleChanges()
        self.fresh_as_of = 0
        """UNIX milliseconds: rules written before are all here."""
        self.additions = 0
        """How many keys were ever new; another number than before says that more may match."""

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, rule_keys: Iterable[bytes]) -> None:
        """Take in rules by their `rule_key`; the generation in it doesn't matter here."""
        for rule_key in rule_keys:
            self.additions += self._keys.add(of_key(rule_key[GENERATION_BYTES:]))

    def change(self, subscription_id: str, rule_key: bytes) -> None:
        """Take in a rule that was written just now."""
        self.add([rule_key])
        self.changes.add(of_key(rule_key[GENERATION_BYTES:]), subscription_id)

    def match_any(self, keys: Sequence[Fingerprint]) -> bool:
        """Whether a rule may name one of `keys`, each given by `of_key`."""
        known = self._keys
        for key in keys:  # noqa: SIM110 - `any` over a generator takes twice as long, and this is the hot path
            if key in known:
                return True
        return False

    def begin_reading(self) -> None:
        """The table is read anew; what is added from now on is what will remain."""
        self._keys.begin_round()

    def end_reading(self) -> Iterator[int]:
        """Forget, step by step, the keys that no rule names any more."""
        return self._keys.sweep()
