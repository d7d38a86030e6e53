"""The ways in which what the live system did can differ from what it should have done."""

from enum import StrEnum


class Difference(StrEnum):
    MISSING = "missing"
    """It should have been pushed, and nobody decided otherwise: it was lost on the way."""
    WRONGLY_DROPPED = "wrongly_dropped"
    """It should have been pushed, but was dropped by a decision that the rules don't bear out."""
    UNEXPECTED = "unexpected"
    """It was pushed, but should not have been."""
    LATE = "late"
    """It was delivered, or given up, too long after it had been observed."""


REPAIRABLE = (Difference.MISSING, Difference.WRONGLY_DROPPED)
"""What `replay` hands back; what was late or unexpected has been pushed already."""
