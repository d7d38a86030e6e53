"""What `reconcile` finds: how what the live system did can differ from what is right."""

from enum import StrEnum


class Difference(StrEnum):
    MISSING = "missing"
    """It should have been pushed, and nobody decided otherwise: it was lost on the way."""
    WRONGLY_DROPPED = "wrongly_dropped"
    """It should have been pushed, but was dropped by a decision that rules and limits don't bear out."""
    UNEXPECTED = "unexpected"
    """It was pushed, but should not have been."""
    LATE = "late"
    """It was delivered, or dropped as stale, too long after it had been observed."""


REPAIRABLE = (Difference.MISSING, Difference.WRONGLY_DROPPED)
"""What `replay` sends again; what was late or unexpected has been pushed already."""
UNJUDGED = "unjudged"
"""Counted beside the differences: nobody can say whether it was wanted, since its rule is known by a digest alone."""
UNREAD = "unread"
"""Counted beside the differences: envelopes too large for a message, of which nobody said where they lie."""
INCOMPLETE = "incomplete"
"""Counted beside the differences: hours that the lake has not all of, so that nobody can say what was lost in them."""
