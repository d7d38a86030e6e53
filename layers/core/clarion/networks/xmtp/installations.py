"""Installations: what XMTP's clients register, each a subscription of the kernel's and a row of the network's own.

A client names its installation itself. The subscription's id is made of the client and that name, so that nothing has to
be looked up, and nobody reaches another's. The row is written in one transaction with its subscription. One that outlives
its subscription, which ends by itself when its token dies, goes by its `ttl`.
"""

import hashlib
from uuid import UUID, uuid5

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import UpdateError
from pynamodb.expressions.update import Action
from pynamodb.models import Model

from clarion.tables import refused

MAX_ID_CHARACTERS = 256
VALID_S = 30 * 86_400
"""How long a registration is good for."""
_KEPT_S = 30 * 86_400
"""How long a row is kept after that."""
_NAMESPACE = UUID("0c6f3a5e-5d0b-4c3e-9a53-6a1f6f1f2b35")
BUCKETS = 7 * 24
"""Refreshes of one period are spread over the hours of its first week."""


class Installation(Model):
    """What the subscription's row has no place for. `valid_until` is in UNIX seconds.

    `refresh_in` is the newest period of its keys, as long as the app is still to be asked for newer ones then, and
    `refresh_slot` what those are found by who are to be asked in one hour: see `slot`.
    """

    class Meta:
        table_name = "installations"

    subscription_id = UnicodeAttribute(hash_key=True)
    installation_id = UnicodeAttribute()
    valid_until = NumberAttribute()
    refresh_in = NumberAttribute(null=True)
    refresh_slot = UnicodeAttribute(null=True)
    ttl = NumberAttribute()

    def __repr__(self) -> str:
        return f"Installation({self.subscription_id})"


def subscription_id_of(client_id: bytes, installation_id: str) -> str:
    return str(uuid5(_NAMESPACE, f"{client_id.hex()}\0{installation_id}"))


def valid_until(now: int) -> int:
    """Of a registration now; both in UNIX seconds."""
    return now + VALID_S


def registered(installation_id: str, now: int) -> list[Action]:
    """What a registration makes of the row, new or not. `now` is in UNIX seconds."""
    return [
        Installation.installation_id.set(installation_id),
        Installation.valid_until.set(valid_until(now)),
        Installation.ttl.set(valid_until(now) + _KEPT_S),
    ]


def slot(period: int, subscription_id: str) -> str:
    """The period, and the hour of it in which this one is asked."""
    bucket = int.from_bytes(hashlib.sha256(subscription_id.encode()).digest()[:8]) % BUCKETS
    return f"{period}#{bucket}"


def note_keys(subscription_id: str, newest: int) -> None:
    """Have the app asked for newer keys in the period `newest`, the last for which it has given any."""
    has_older = Installation.refresh_in.does_not_exist() | (Installation.refresh_in < newest)
    actions: list[Action] = [
        Installation.refresh_in.set(newest),
        Installation.refresh_slot.set(slot(newest, subscription_id)),
    ]
    try:
        Installation(subscription_id).update(actions, condition=Installation.subscription_id.exists() & has_older)
    except UpdateError as error:
        if not refused(error):
            raise
