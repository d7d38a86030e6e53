"""What a wallet may ask for: by the relay's tag, the act of its token, where it is sent, and where the token stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from clarion.networks.walletconnect.acts import Profile
from clarion.networks.walletconnect.buckets import (
    HISTORY_OF_TOPIC,
    LISTS_OF_ACCOUNT,
    SUBSCRIBE_OF_CLIENT,
    SUBSCRIBE_OF_PROJECT,
    UPDATE_OF_TOPIC,
    WATCH_OF_CLIENT,
    BucketSize,
)
from clarion.networks.walletconnect.commands import RelayCommand, message_digest
from clarion.networks.walletconnect.tags import TAGS, ActName
from clarion.networks.walletconnect.topics import TopicKind

RESPONSE_AUTH, AUTH = "responseAuth", "auth"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestKind:
    """`member` holds the token, in JSON-RPC's `params`, and `answer` that of our answer, in its `result`.

    The buckets are those of the sender's key, of the topic and of the account. A subscription ends once, so its end needs
    none.
    """

    act: ActName
    topic: TopicKind
    member: str
    answer: str = RESPONSE_AUTH
    sender_bucket: BucketSize | None = None
    topic_bucket: BucketSize | None = None
    account_bucket: BucketSize | None = None

    @property
    def response_act(self) -> ActName:
        return ActName(f"{self.act}_response")


REQUESTS: Mapping[int, RequestKind] = {
    TAGS[kind.act]: kind
    for kind in (
        RequestKind(
            act=ActName.SUBSCRIPTION,
            topic=TopicKind.APP,
            member="subscriptionAuth",
            sender_bucket=SUBSCRIBE_OF_CLIENT,
            topic_bucket=SUBSCRIBE_OF_PROJECT,
            account_bucket=LISTS_OF_ACCOUNT,
        ),
        RequestKind(
            act=ActName.UPDATE,
            topic=TopicKind.SUBSCRIPTION,
            member="updateAuth",
            topic_bucket=UPDATE_OF_TOPIC,
            account_bucket=LISTS_OF_ACCOUNT,
        ),
        RequestKind(act=ActName.DELETE, topic=TopicKind.SUBSCRIPTION, member="deleteAuth"),
        RequestKind(
            act=ActName.WATCH_SUBSCRIPTIONS,
            topic=TopicKind.SERVER,
            member="watchSubscriptionsAuth",
            sender_bucket=WATCH_OF_CLIENT,
            account_bucket=LISTS_OF_ACCOUNT,
        ),
        RequestKind(
            act=ActName.GET_NOTIFICATIONS,
            topic=TopicKind.SUBSCRIPTION,
            member=AUTH,
            answer=AUTH,
            topic_bucket=HISTORY_OF_TOPIC,
        ),
        RequestKind(
            act=ActName.MARK_NOTIFICATIONS_AS_READ,
            topic=TopicKind.SUBSCRIPTION,
            member=AUTH,
            answer=AUTH,
            topic_bucket=HISTORY_OF_TOPIC,
        ),
    )
}
"""By tag. The deployed clients write some methods otherwise than their specification, so no method is looked at."""
RECEIPT_TAG = TAGS[ActName.MESSAGE_RESPONSE]
RECEIPT_ACTS: Mapping[Profile, ActName] = {"shipped": ActName.MESSAGE_RESPONSE, "document": ActName.RECEIPT}
"""By which the wallet answers a notification."""
RECEIPT_MEMBERS = (RESPONSE_AUTH, "receiptAuth")
"""One of them holds its token, in JSON-RPC's `result`; the latter is the document's."""


class RequestArrival(NamedTuple):
    """A message of the relay: `name` is its digest in hex, and the same if it comes again. It came at `at_ms`.

    `retried`: it was received before, and may have been handled in part.
    """

    name: str
    at_ms: int
    retried: bool = False

    @classmethod
    def of(cls, command: RelayCommand, at_ms: int, *, retried: bool = False) -> Self:
        return cls(message_digest(command.topic, command.message).hex(), at_ms, retried=retried)
