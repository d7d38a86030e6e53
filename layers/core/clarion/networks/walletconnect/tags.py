"""The acts of tokens, by their claim `act`, and the tag under which the relay publishes the message with each."""

from collections.abc import Mapping
from enum import StrEnum


class ActName(StrEnum):
    SUBSCRIPTION = "notify_subscription"
    SUBSCRIPTION_RESPONSE = "notify_subscription_response"
    MESSAGE = "notify_message"
    MESSAGE_RESPONSE = "notify_message_response"
    RECEIPT = "notify_receipt"
    DELETE = "notify_delete"
    DELETE_RESPONSE = "notify_delete_response"
    UPDATE = "notify_update"
    UPDATE_RESPONSE = "notify_update_response"
    WATCH_SUBSCRIPTIONS = "notify_watch_subscriptions"
    WATCH_SUBSCRIPTIONS_RESPONSE = "notify_watch_subscriptions_response"
    SUBSCRIPTIONS_CHANGED = "notify_subscriptions_changed"
    SUBSCRIPTIONS_CHANGED_RESPONSE = "notify_subscriptions_changed_response"
    GET_NOTIFICATIONS = "notify_get_notifications"
    GET_NOTIFICATIONS_RESPONSE = "notify_get_notifications_response"
    MARK_NOTIFICATIONS_AS_READ = "notify_mark_notifications_as_read"
    MARK_NOTIFICATIONS_AS_READ_RESPONSE = "notify_mark_notifications_as_read_response"


TAGS: Mapping[str, int] = {
    ActName.SUBSCRIPTION: 4000,
    ActName.SUBSCRIPTION_RESPONSE: 4001,
    ActName.MESSAGE: 4002,
    ActName.MESSAGE_RESPONSE: 4003,
    ActName.RECEIPT: 4003,
    ActName.DELETE: 4004,
    ActName.DELETE_RESPONSE: 4005,
    ActName.UPDATE: 4008,
    ActName.UPDATE_RESPONSE: 4009,
    ActName.WATCH_SUBSCRIPTIONS: 4010,
    ActName.WATCH_SUBSCRIPTIONS_RESPONSE: 4011,
    ActName.SUBSCRIPTIONS_CHANGED: 4012,
    ActName.SUBSCRIPTIONS_CHANGED_RESPONSE: 4013,
    ActName.GET_NOTIFICATIONS: 4014,
    ActName.GET_NOTIFICATIONS_RESPONSE: 4015,
    ActName.MARK_NOTIFICATIONS_AS_READ: 4016,
    ActName.MARK_NOTIFICATIONS_AS_READ_RESPONSE: 4017,
}
NOOP = 4050
"""Of a message without content, which keeps the mailbox of its topic."""
WALLET_TAGS = frozenset(
    TAGS[act]
    for act in (
        ActName.SUBSCRIPTION,
        ActName.MESSAGE_RESPONSE,
        ActName.DELETE,
        ActName.UPDATE,
        ActName.WATCH_SUBSCRIPTIONS,
        ActName.GET_NOTIFICATIONS,
        ActName.MARK_NOTIFICATIONS_AS_READ,
    )
)
"""Of the messages of wallets that are handled. All others on the followed topics are Clarion's own, or are ignored.

So is a wallet's answer to `SUBSCRIPTIONS_CHANGED` (4013): nothing is due for it, since each change lists all subscriptions
anew, and `notify-client` sends none. It would come on the watcher's topic, which is not followed.
"""
