"""Installations: what XMTP's clients register, each a subscription of the kernel's and a row of the network's own.

A client names its installation itself. The subscription's id is made of the client and that name, so that nothing has
to be looked up, and nobody reaches another's. The row is written in one transaction with its subscription.

                    API                                          worker, every hour
    valid_until   registered ──▶ 30 days on                over ──▶ subscription ended, row deleted
    refresh_in    keys handed over ──▶ the newest period   come ──▶ refresh sent, attribute removed

Both are sorted by an index, in `BUCKETS` parts. That of `refresh_in` is sparse: it has only those that are still to be
asked. In the first week of a period one bucket comes of age each hour, so that not all phones are woken at once.
"""

import hashlib
from uuid import UUID, uuid5

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import DeleteError, UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from clarion.networks.xmtp.needs import BY_END, BY_REFRESH, INSTALLATIONS
from clarion.networks.xmtp.sender_hmac import PERIOD_S
from clarion.tables import refused

VALID_S = 30 * 86_400
"""How long a registration is good for."""
_NAMESPACE = UUID("0c6f3a5e-5d0b-4c3e-9a53-6a1f6f1f2b35")
BUCKETS = 7 * 24
"""One for each hour of a week."""


class ByRefresh(GlobalSecondaryIndex["Installation"]):
    """Those to be asked for newer keys, by the period in which."""

    class Meta:
        index_name = BY_REFRESH
        projection = KeysOnlyProjection()

    bucket = NumberAttribute(hash_key=True)
    refresh_in = NumberAttribute(range_key=True)
    subscription_id = UnicodeAttribute()


class ByEnd(GlobalSecondaryIndex["Installation"]):
    """All, by when they are over."""

    class Meta:
        index_name = BY_END
        projection = KeysOnlyProjection()

    bucket = NumberAttribute(hash_key=True)
    valid_until = NumberAttribute(range_key=True)
    subscription_id = UnicodeAttribute()


class Installation(Model):
    """What the subscription's row has no place for. `valid_until` is in UNIX seconds.

    `refresh_in` is the newest period of its keys, as long as the app is still to be asked for newer ones then;
    `refreshed_in` is the period in which it was last asked.
    """

    class Meta:
        table_name = INSTALLATIONS

    subscription_id = UnicodeAttribute(hash_key=True)
    installation_id = UnicodeAttribute()
    bucket = NumberAttribute()
    valid_until = NumberAttribute()
    refresh_in = NumberAttribute(null=True)
    refreshed_in = NumberAttribute(null=True)

    by_refresh = ByRefresh()
    by_end = ByEnd()

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
        Installation.bucket.set(bucket_of(installation_id)),
        Installation.valid_until.set(valid_until(now)),
    ]


def bucket_of(installation_id: str) -> int:
    return int.from_bytes(hashlib.sha256(installation_id.encode()).digest()[:8]) % BUCKETS


def due_buckets(now: int) -> range:
    """Those whose installations may be asked for newer keys. `now` is in UNIX seconds."""
    return range(min(now % PERIOD_S // 3600 + 1, BUCKETS))


def note_keys(subscription_id: str, newest: int) -> None:
    """Have the app asked for newer keys in the period `newest`, the last for which it has given any.

    In one period it is asked once, whatever keys it answers with.
    """
    has_older = Installation.refresh_in.does_not_exist() | (Installation.refresh_in < newest)
    unasked = Installation.refreshed_in.does_not_exist() | (Installation.refreshed_in < newest)
    there = Installation.subscription_id.exists()
    _update(subscription_id, Installation.refresh_in.set(newest), condition=there & has_older & unasked)


def mark_refreshed(subscription_id: str, period: int) -> None:
    """The app has been asked in `period`. If it has given newer keys meanwhile, they stay noted."""
    actions = (Installation.refresh_in.remove(), Installation.refreshed_in.set(period))
    _update(subscription_id, *actions, condition=Installation.refresh_in <= period)


def withdraw_refresh(subscription_id: str, period: int) -> None:
    """The app can't be asked in `period`: its subscription is over, or its channel is deployed no more."""
    _update(subscription_id, Installation.refresh_in.remove(), condition=Installation.refresh_in <= period)


def delete_ended(row: Installation) -> None:
    """Unless it has been registered again meanwhile."""
    try:
        row.delete(condition=Installation.valid_until == row.valid_until)
    except DeleteError as error:
        if not refused(error):
            raise


def _update(subscription_id: str, *actions: Action, condition: Condition) -> None:
    """Nothing changes if the condition doesn't hold."""
    try:
        Installation(subscription_id).update(list(actions), condition=condition)
    except UpdateError as error:
        if not refused(error):
            raise
