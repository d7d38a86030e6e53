"""The code of a verification, as dispatch puts it together."""

from clarion.messages import PushMessage
from clarion.own_pushes import VerificationBody
from clarion.proofs import unmasked
from clarion.tables import Subscription


def code_of(push: PushMessage) -> str:
    """What the phone gets, if the push is of its subscription's latest code."""
    row = Subscription.get(str(push.subscription_id), consistent_read=True)
    body = unmasked(push, row).body
    assert isinstance(body, VerificationBody)
    return body.code
