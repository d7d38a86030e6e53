"""The closed vocabularies: every decision that Clarion takes, in the words of its metrics, events, logs and reports."""

from enum import StrEnum


class PushType(StrEnum):
    """How the phone is to present a push; a rule of an FCM subscription may ask for `voip`."""

    ALERT = "alert"
    VOIP = "voip"


class Environment(StrEnum):
    """Where Apple made a device token: builds for development get theirs in the sandbox. FCM makes no difference."""

    PRODUCTION = "production"
    SANDBOX = "sandbox"


class SubscriptionStatus(StrEnum):
    """An `invalid` subscription has no rules and gets no push: its provider has declared the token dead."""

    ACTIVE = "active"
    INVALID = "invalid"


class StatementDecision(StrEnum):
    """What became of a statement."""

    MALFORMED = "malformed"
    UNSUPPORTED_PROOF = "unsupported_proof"
    EXPIRED = "expired"
    BAD_SIGNATURE = "bad_signature"
    UNMATCHED = "unmatched"
    MATCHED = "matched"


class NotificationDecision(StrEnum):
    """What became of one statement for one subscription that wants it."""

    RATE_LIMITED = "rate_limited"
    DUPLICATE = "duplicate"
    CAPPED = "capped"
    QUEUED = "queued"


class PushDecision(StrEnum):
    """What became of one attempt to push."""

    DELIVERED = "delivered"
    TOKEN_GONE = "token_gone"  # noqa: S105 - a word of the vocabulary, not a secret
    SUBSCRIPTION_GONE = "subscription_gone"
    STALE = "stale"
    RETRY = "retry"
    REFUSED = "refused"
    MISCONFIGURED = "misconfigured"
