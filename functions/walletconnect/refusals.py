"""Why a request is not served."""

from enum import StrEnum


class RefusalReason(StrEnum):
    """The words of logs, and of the errors that wallets get."""

    UNKNOWN_TOPIC = "unknown_topic"
    UNREADABLE = "unreadable"
    UNKNOWN_REQUEST = "unknown_request"
    THROTTLED = "throttled"
    EXPIRED = "expired"
    """The product document has it ignored, as if it had never been received."""
    REPLAYED = "replayed"
    """The token has come before, in another envelope."""
    OUTDATED = "outdated"
    """The subscription was changed by a younger token, or has ended."""
    INVALID_TOKEN = "invalid_token"  # noqa: S105 - a word of the vocabulary, not a secret
    INVALID_SCOPE = "invalid_scope"
    INVALID_IDENTITY = "invalid_identity"
    UNKNOWN_IDENTITY = "unknown_identity"
    """The key server has no such key."""
    UNKNOWN_KEY_SERVER = "unknown_key_server"
    APP_NOT_ALLOWED = "app_not_allowed"
    """The identity key signs for another app."""
    ACCOUNT_NOT_ALLOWED = "account_not_allowed"
    """The subscription is another account's."""
    UNKNOWN_APP = "unknown_app"
    TOO_MANY_SUBSCRIPTIONS = "too_many_subscriptions"
    TOO_MANY_WATCHERS = "too_many_watchers"


UNANSWERED = {
    RefusalReason.UNKNOWN_TOPIC,
    RefusalReason.UNREADABLE,
    RefusalReason.UNKNOWN_REQUEST,
    RefusalReason.THROTTLED,
    RefusalReason.EXPIRED,
    RefusalReason.REPLAYED,
    RefusalReason.OUTDATED,
}
"""For these the sender gets no answer."""


class NotServed(Exception):  # noqa: N818 - it says what becomes of a request
    """`flaw` is what exactly is wrong with a token or an identity, in a word. Neither holds anything of the request."""

    def __init__(self, reason: RefusalReason, flaw: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.flaw = flaw

    @property
    def text(self) -> str:
        return f"{self.reason}: {self.flaw}" if self.flaw else str(self.reason)
