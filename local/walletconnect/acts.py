"""What a wallet says to a Notify server, in both generations of the protocol, and what it is answered.

The product document has four acts of a wallet's; what was shipped later has eight, and other times to live.
"""

from dataclasses import dataclass
from enum import Enum

_FIVE_MINUTES_S, _THIRTY_DAYS_S = 5 * 60, 30 * 24 * 60 * 60


class Generation(Enum):
    DOCUMENT = "document"
    SHIPPED = "shipped"


@dataclass(frozen=True)
class WalletAct:
    """A request of a wallet's: `field` holds its JWT, `answered_in` the answer's. Times in seconds."""

    name: str
    method: str
    tag: int
    field: str
    ttl: int
    answer_ttl: int
    answered_in: str = "responseAuth"

    @property
    def answer(self) -> str:
        return f"{self.name}_response"


def _shared(request_ttl: int) -> dict[str, WalletAct]:
    times = request_ttl, _THIRTY_DAYS_S
    return {
        "subscribe": WalletAct("notify_subscription", "wc_notifySubscribe", 4000, "subscriptionAuth", *times),
        "update": WalletAct("notify_update", "wc_notifyUpdate", 4008, "updateAuth", *times),
        "delete": WalletAct("notify_delete", "wc_notifyDelete", 4004, "deleteAuth", _THIRTY_DAYS_S, _THIRTY_DAYS_S),
    }


def _read(name: str, method: str, tag: int) -> WalletAct:
    return WalletAct(name, method, tag, "auth", _FIVE_MINUTES_S, _FIVE_MINUTES_S, "auth")


ACTS = {
    Generation.DOCUMENT: _shared(30),
    Generation.SHIPPED: {
        **_shared(_FIVE_MINUTES_S),
        "watch": WalletAct(
            "notify_watch_subscriptions",
            "wc_notifyWatchSubscription",
            4010,
            "watchSubscriptionsAuth",
            _FIVE_MINUTES_S,
            _FIVE_MINUTES_S,
        ),
        "history": _read("notify_get_notifications", "wc_notifyGetNotifications", 4014),
        "mark_as_read": _read("notify_mark_notifications_as_read", "wc_notifyMarkNotificationsAsRead", 4016),
    },
}


@dataclass(frozen=True)
class Acknowledgement:
    """A wallet's answer to a request of the server's, whose JWT is in `asked_in`."""

    asked: str
    asked_in: str
    asked_ttl: int
    name: str
    tag: int
    field: str
    ttl: int


RECEIPTS = {
    Generation.DOCUMENT: Acknowledgement(
        "notify_message", "messageAuth", _THIRTY_DAYS_S, "notify_receipt", 4003, "receiptAuth", _THIRTY_DAYS_S
    ),
    Generation.SHIPPED: Acknowledgement(
        "notify_message",
        "messageAuth",
        _THIRTY_DAYS_S,
        "notify_message_response",
        4003,
        "responseAuth",
        _THIRTY_DAYS_S,
    ),
}
CHANGED = Acknowledgement(
    "notify_subscriptions_changed",
    "subscriptionsChangedAuth",
    _FIVE_MINUTES_S,
    "notify_subscriptions_changed_response",
    4013,
    "responseAuth",
    _FIVE_MINUTES_S,
)
