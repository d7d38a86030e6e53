"""The closed vocabularies: every decision that Clarion takes, in the words of its metrics, events, logs and reports."""

from enum import StrEnum


class Wanted(StrEnum):
    """How a rule wants an envelope, or why it doesn't. Of several rules of one subscription, the first in this order wins.

    Those that don't push are decisions about a notification, too, in the same words.
    """

    CALL = "call"
    ALERT = "alert"
    BACKGROUND = "background"
    OWN_MESSAGE = "own_message"
    NOT_PUSHABLE = "not_pushable"
    NOT_IN_SCOPE = "not_in_scope"

    @property
    def rank(self) -> int:
        """The least comes first."""
        return _RANKS[self]

    @property
    def pushes(self) -> bool:
        return self.rank <= _RANKS[Wanted.BACKGROUND]


_RANKS = {wanted: rank for rank, wanted in enumerate(Wanted)}


class Purpose(StrEnum):
    """What a push is for. Only notifications are admitted and reconciled."""

    NOTIFICATION = "notification"
    DIRECT = "direct"
    VERIFICATION = "verification"
    """The only one that may reach a subscription whose token is not proven yet."""
    WAKE_UP = "wake_up"
    REFRESH = "refresh"


class Environment(StrEnum):
    """Where Apple made a device token: builds for development get theirs in the sandbox. FCM and Web Push make no difference."""

    PRODUCTION = "production"
    SANDBOX = "sandbox"


class SubscriptionStatus(StrEnum):
    """A `pending` subscription waits for the proof that its client has the token: it has rules, and gets no push but that.

    Without proof it is `expired` after a day. An `invalid` one has lost its token: `statusReason` says how. Neither has
    rules or gets a push.
    """

    PENDING = "pending"
    ACTIVE = "active"
    INVALID = "invalid"
    EXPIRED = "expired"

    @property
    def has_rules(self) -> bool:
        return self in {SubscriptionStatus.PENDING, SubscriptionStatus.ACTIVE}


class TokenProof(StrEnum):
    """When a client has to prove that a token is its own: never, before it takes one from another client, or always."""

    NEVER = "never"
    TAKEOVER = "takeover"
    ALWAYS = "always"


class OwnMessages(StrEnum):
    """Whether an app's clients are pushed what they have sent themselves, in networks that recognise it."""

    SUPPRESS = "suppress"
    DELIVER = "deliver"


class EnvelopeDecision(StrEnum):
    """What became of an envelope."""

    MALFORMED = "malformed"
    UNSUPPORTED_PROOF = "unsupported_proof"
    EXPIRED = "expired"
    BAD_SIGNATURE = "bad_signature"
    UNMATCHED = "unmatched"
    MATCHED = "matched"


class NotificationDecision(StrEnum):
    """What became of one envelope for one subscription that has a rule for it."""

    OWN_MESSAGE = Wanted.OWN_MESSAGE.value
    NOT_PUSHABLE = Wanted.NOT_PUSHABLE.value
    NOT_IN_SCOPE = Wanted.NOT_IN_SCOPE.value
    RATE_LIMITED = "rate_limited"
    DUPLICATE = "duplicate"
    CAPPED = "capped"
    QUEUED = "queued"


class PushDecision(StrEnum):
    """What became of one attempt to push, or what the receiver says of a push."""

    DELIVERED = "delivered"
    RECEIVED = "received"
    TOKEN_GONE = "token_gone"  # noqa: S105 - a word of the vocabulary, not a secret
    SUBSCRIPTION_GONE = "subscription_gone"
    COALESCED = "coalesced"
    """Another push of the same subscription has brought what this one is about."""
    STALE = "stale"
    RETRY = "retry"
    REFUSED = "refused"
    MISCONFIGURED = "misconfigured"


REACHED = frozenset({PushDecision.DELIVERED, PushDecision.COALESCED})
"""What a notification was for has been pushed: by itself, or with another."""
FINAL = (*sorted(REACHED), PushDecision.TOKEN_GONE, PushDecision.SUBSCRIPTION_GONE, PushDecision.REFUSED)
"""After these a push is not tried again."""
