"""What each decision costs in AWS requests, in dollars: on-demand prices of us-east-1, November 2026.

The units are those that docs/cost.md counts. Firehose bills by the record's packed lines, Lambda by a batch's share.
"""

MILLION = 1_000_000
WRITE, READ, SQS = 0.625 / MILLION, 0.125 / MILLION, 0.40 / MILLION
LAMBDA_MS = 0.0000133334 / 1_000 / 2
"""A millisecond of 512 MB on arm64."""
EVENT = 0.029 / (1 << 30) * 1_024
"""A line of about 1 KB in a packed record."""

# A batch of ten shares its SQS requests: sent, received, deleted.
_PASSED = 3 * SQS / 10

PER_DECISION: dict[str, float] = {
    "statement/malformed": _PASSED + LAMBDA_MS + 2 * EVENT,
    "statement/unsupported_proof": _PASSED + LAMBDA_MS + 2 * EVENT,
    "statement/expired": _PASSED + LAMBDA_MS + 2 * EVENT,
    "statement/bad_signature": _PASSED + LAMBDA_MS + 2 * EVENT,
    "statement/unmatched": _PASSED + 0.5 * READ + 2 * LAMBDA_MS + 2 * EVENT,
    "statement/matched": _PASSED + READ + 2 * LAMBDA_MS + 2 * EVENT,
    "notification/rate_limited": 0.5 * READ + LAMBDA_MS + EVENT,
    "notification/duplicate": 0.5 * READ + WRITE + LAMBDA_MS + EVENT,
    "notification/queued": 0.5 * READ + 2 * WRITE + _PASSED + 2 * LAMBDA_MS + EVENT,
    "push/delivered": 0.5 * READ + 5 * LAMBDA_MS + EVENT,
    "push/token_gone": 0.5 * READ + 2 * WRITE + 5 * LAMBDA_MS + EVENT,
    "push/retry": 0.5 * READ + _PASSED + 5 * LAMBDA_MS + EVENT,
    "push/refused": 0.5 * READ + 5 * LAMBDA_MS + EVENT,
    "push/stale": LAMBDA_MS + EVENT,
    "push/subscription_gone": 0.5 * READ + LAMBDA_MS + EVENT,
    "push/misconfigured": 0.5 * READ + _PASSED + 5 * LAMBDA_MS + EVENT,
}
"""Dollars, by stage and decision."""
