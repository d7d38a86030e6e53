"""The states of tokens and subscriptions, as agents are told them."""

from enum import StrEnum

from clarion.networks.simplex.errors import ErrorType

REASONS_VERSION = 3
"""From this version of NTF on, an agent is told why a token is invalid."""


class TokenStatus(StrEnum):
    NEW = "NEW"
    REGISTERED = "REGISTERED"
    INVALID = "INVALID"
    INVALID_BAD = "INVALID,BAD"
    INVALID_TOPIC = "INVALID,TOPIC"
    INVALID_EXPIRED = "INVALID,EXPIRED"
    INVALID_UNREGISTERED = "INVALID,UNREGISTERED"
    CONFIRMED = "CONFIRMED"
    ACTIVE = "ACTIVE"
    EXPIRED = "EXPIRED"

    def text(self, version: int) -> str:
        return self if version >= REASONS_VERSION else self.partition(",")[0]


ALIVE = frozenset({TokenStatus.REGISTERED, TokenStatus.CONFIRMED, TokenStatus.ACTIVE})
"""The states in which a token may be verified."""
DEAD = frozenset(status for status in TokenStatus if status.startswith("INVALID"))


class QueueStatus(StrEnum):
    """Of a subscription, which is for one queue."""

    NEW = "NEW"
    PENDING = "PENDING"
    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
    END = "END"
    DELETED = "DELETED"
    AUTH = "AUTH"
    SERVICE = "SERVICE"


_REFUSED = {ErrorType.AUTH: QueueStatus.AUTH, ErrorType.SERVICE: QueueStatus.SERVICE}


def refused(error: ErrorType) -> str:
    """The text of the status of a subscription to which an SMP server answers with `error`."""
    return _REFUSED.get(error, f"ERR {error}")
