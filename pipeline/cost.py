"""What each decision costs, by the ledger of docs/cost.md: the tables, what is sent on, and telling the lake.

Each counts as if it came one at a time, so a busy hour costs less. As in the ledger, the Lambdas' time and what SQS
bills for receiving are not in it.
"""

from typing import NamedTuple

from pipeline.prices import FIREHOSE_BYTE, FIREHOSE_RECORD_BYTES, READ_UNIT, SQS_REQUEST, WRITE_UNIT

MILLION = 1_000_000


class Units(NamedTuple):
    """What is billed: the tables' read and write units, messages to SQS, records to Firehose."""

    reads: float = 0
    writes: float = 0
    sent: float = 0
    records: float = 0

    @property
    def dollars(self) -> float:
        """For a million."""
        tables = self.reads * READ_UNIT + self.writes * WRITE_UNIT
        return tables + self.sent * SQS_REQUEST + self.records * FIREHOSE_RECORD_BYTES * FIREHOSE_BYTE


_TOLD = Units(records=1)
_LOOKED_UP = Units(reads=0.5, records=1)

PER_DECISION = {
    "statement/malformed": _TOLD,
    "statement/unsupported_proof": _TOLD,
    "statement/expired": _TOLD,
    "statement/bad_signature": _TOLD,
    "statement/unmatched": _LOOKED_UP,
    "statement/matched": _LOOKED_UP,
    # The subscription and the pair's window are read; the record is the statement's.
    "notification/rate_limited": Units(reads=1),
    "notification/capped": Units(reads=1),
    "notification/duplicate": Units(reads=1, writes=1),
    "notification/queued": Units(reads=1, writes=2, sent=1),
    # Dispatch reads the subscription, and tells the lake by a record of its own.
    "push/delivered": _LOOKED_UP,
    "push/token_gone": Units(reads=0.5, writes=4, records=1),
    "push/retry": Units(reads=0.5, sent=1, records=1),
    "push/refused": _LOOKED_UP,
    "push/stale": _TOLD,
    "push/subscription_gone": _LOOKED_UP,
    "push/misconfigured": Units(reads=0.5, sent=1, records=1),
}
"""By stage and decision."""
