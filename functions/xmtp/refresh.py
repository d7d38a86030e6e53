"""The push that asks an app to register again and to hand over new keys, without showing anything."""

from hashlib import sha256
from uuid import UUID, uuid4

from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import Installation
from clarion.networks.xmtp.payload import refresh_body
from clarion.tables import Subscription


def refresh(row: Installation, subscription: Subscription, now: int) -> PushMessage:
    """Its id stays when it is sent again, before it was noted. `now` is in UNIX milliseconds.

    It is of use until the registration is over. Raises `ValueError` or `TypeError` for a row that can't be read.
    """
    return PushMessage(
        network=XMTP,
        purpose=Purpose.REFRESH,
        receipt=uuid4(),
        observed_at=now,
        envelope_id=sha256(f"refresh after {row.asked_at:.0f} {row.subscription_id}".encode()).digest(),
        subscription_id=UUID(row.subscription_id),
        client_id=subscription.client_id,
        channel=Channel(subscription.channel),
        wanted=Wanted.BACKGROUND,
        expires_at=int(row.valid_until),
        body=refresh_body(),
    )
