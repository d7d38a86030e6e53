"""A wallet has received a notification: it answers the request that brought it, and signs that.

A receipt of the document's names the message by its hash. One of the shipped protocol names nothing: it is for what was
sent on its topic under its JSON-RPC id.
"""

from clarion.decisions import Purpose, PushDecision
from clarion.events import PushTried
from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect.jwt import message_hash
from clarion.networks.walletconnect.notifications import SentNotification, find_notification
from clarion.networks.walletconnect.sealed import envelope_id_of
from clarion.networks.walletconnect.subscriptions import NotifySubscription
from clarion.tables import update_if
from walletconnect.authorization import SignedRequest
from walletconnect.rpc_messages import RpcId, number_of, rpc_id_of
from walletconnect.subscriber_messages import receipt_of


def receive(subscription_id: str, rpc_id: RpcId, request: SignedRequest) -> SentNotification | None:
    """What is received now; None if nothing such was sent, or it was received before."""
    row, at_ms = find_sent(subscription_id, rpc_id), request.arrival.at_ms
    if row is None or (request.profile == "document" and message_hash(row.content) != request.claims["sub"]):
        return None
    received_at = SentNotification.received_at
    # The same receipt, handled again after a crash, is received at the same time.
    first = received_at.does_not_exist() | (received_at == at_ms)
    there = SentNotification.notification_id.exists()
    return row if update_if(row, received_at.set(at_ms), condition=there & first) else None


def find_sent(subscription_id: str, rpc_id: RpcId) -> SentNotification | None:
    """What was sent to a subscriber under this id."""
    try:
        row = find_notification(subscription_id, number_of(int(rpc_id)))
    except ValueError:
        return None
    return row if row is not None and rpc_id_of(row) == int(rpc_id) else None


def received_event(subscription: NotifySubscription, row: SentNotification, at_ms: int) -> PushTried:
    """Whatever way it came. A wallet does not say by which of its phones."""
    envelope_id = envelope_id_of(subscription.topic, row.notification_id)
    return PushTried(
        network=WALLETCONNECT,
        at=at_ms,
        receipt=receipt_of(envelope_id),
        envelope_id=envelope_id,
        decision=PushDecision.RECEIVED,
        purpose=Purpose.DIRECT,
        subscription_id=subscription.subscription_id,
        attempt=0,
        latency_ms=max(0, at_ms - int(row.sent_at)),
    )
