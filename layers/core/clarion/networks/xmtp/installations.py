"""Installations: what XMTP's clients register, each a subscription of the kernel's and a row of the network's own.

A client names its installation itself. The subscription's id is made of the client and that name, so that nothing has
to be looked up, and nobody reaches another's. The row is written in one transaction with its subscription.

               API                                 worker, every hour
    end_due    registered ──▶ a week before its    come ──▶ refresh sent, unless one was since it registered
               registration is over                over ──▶ subscription ended, row deleted
    keys_due   keys handed over ──▶ the newest     come ──▶ refresh sent if the newest that is left is not of a later
               period begins                                period; a week on, keys that serve no more are erased,
                                                            and so in each further period

Both are sorted by an index, in `BUCKETS` parts. That of `keys_due` is sparse: it has only those that were given keys. In
a period one bucket comes of age in each hour of its first week, so that not all phones are woken at once.
"""

import hashlib
from uuid import UUID, uuid5

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.exceptions import DeleteError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from clarion.networks.xmtp.needs import BY_END_DUE, BY_KEYS_DUE, INSTALLATIONS
from clarion.networks.xmtp.sender_hmac import PERIOD_S, period_at
from clarion.tables import refused, update_if

VALID_S = 30 * 86_400
"""How long a registration is good for."""
_NAMESPACE = UUID("0c6f3a5e-5d0b-4c3e-9a53-6a1f6f1f2b35")
GRACE_S = 3600
"""So long an installation stays after its time, so that no clock that is fast ends one that is just being renewed."""
WEEK_S = 7 * 86_400
BUCKETS = WEEK_S // 3600
"""One for each hour of a week."""


class ByKeysDue(GlobalSecondaryIndex["Installation"]):
    """Those that have keys, by when these are looked at."""

    class Meta:
        index_name = BY_KEYS_DUE
        projection = KeysOnlyProjection()

    bucket = NumberAttribute(hash_key=True)
    keys_due = NumberAttribute(range_key=True)
    subscription_id = UnicodeAttribute()


class ByEndDue(GlobalSecondaryIndex["Installation"]):
    """All, by when it is looked at whether they are over."""

    class Meta:
        index_name = BY_END_DUE
        projection = KeysOnlyProjection()

    bucket = NumberAttribute(hash_key=True)
    end_due = NumberAttribute(range_key=True)
    subscription_id = UnicodeAttribute()


class Installation(Model):
    """What the subscription's row has no place for. Instants are in UNIX seconds.

    `asked_at` is when it was last sent a refresh.
    """

    class Meta:
        table_name = INSTALLATIONS

    subscription_id = UnicodeAttribute(hash_key=True)
    installation_id = UnicodeAttribute()
    bucket = NumberAttribute()
    valid_until = NumberAttribute()
    end_due = NumberAttribute()
    keys_due = NumberAttribute(null=True)
    asked_at = NumberAttribute(default=0)

    by_keys_due = ByKeysDue()
    by_end_due = ByEndDue()

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
        Installation.end_due.set(valid_until(now) - WEEK_S),
    ]


def bucket_of(installation_id: str) -> int:
    return int.from_bytes(hashlib.sha256(installation_id.encode()).digest()[:8]) % BUCKETS


def are_keys_due(row: Installation, now: int) -> bool:
    """Whether its keys are to be looked at. They go with the installation if that is over."""
    return row.keys_due is not None and row.keys_due <= now and not is_over(row, now)


def was_asked(row: Installation, now: int) -> bool:
    """Whether it was sent a refresh in this period."""
    return period_at(int(row.asked_at)) == period_at(now)


def lacks_newer_keys(row: Installation, newest: int | None, now: int) -> bool:
    """Whether its newest keys are of this period or an older one, and it has not been asked for newer ones since.

    `newest` is their period, None without keys.
    """
    return newest is not None and period_at(int(row.asked_at)) < newest <= period_at(now)


def is_over(row: Installation, now: int) -> bool:
    return bool(row.valid_until + GRACE_S <= now)


def asked_since_registered(row: Installation) -> bool:
    return bool(row.asked_at > row.valid_until - VALID_S)


def note_keys(subscription_id: str, installation_id: str, newest: int) -> None:
    """The app gives keys, the newest for the period `newest`: they are looked at in that period, if not sooner.

    In one period it is asked once, whatever keys it answers with.
    """
    turn, there = _turn(bucket_of(installation_id), newest), Installation.subscription_id.exists()
    asked, due = Installation.asked_at, Installation.keys_due
    later = (due > turn) & (asked.does_not_exist() | (asked < newest * PERIOD_S))
    _update(subscription_id, due.set(turn), condition=there & (due.does_not_exist() | later))


def note_asked_for_keys(row: Installation, now: int) -> None:
    """What the app doesn't answer with newer keys for is erased in a week."""
    actions = (Installation.asked_at.set(now), Installation.keys_due.set(now + WEEK_S))
    _update(row.subscription_id, *actions, condition=Installation.keys_due == row.keys_due)


def note_pruned(row: Installation, now: int) -> None:
    """The keys are looked at again in the next period."""
    again = Installation.keys_due.set(_turn(int(row.bucket), period_at(now) + 1))
    _update(row.subscription_id, again, condition=Installation.keys_due == row.keys_due)


def note_ending(row: Installation, *actions: Action) -> None:
    """Unless it has been registered again meanwhile, it is over next time."""
    over = Installation.end_due.set(row.valid_until + GRACE_S)
    _update(row.subscription_id, over, *actions, condition=Installation.valid_until == row.valid_until)


def delete_ended(row: Installation) -> None:
    """Unless it has been registered again meanwhile."""
    try:
        row.delete(condition=Installation.valid_until == row.valid_until)
    except DeleteError as error:
        if not refused(error):
            raise


def _turn(bucket: int, period: int) -> int:
    """When in a period an installation of the bucket has its turn, in UNIX seconds."""
    return period * PERIOD_S + bucket * 3600


def _update(subscription_id: str, *actions: Action, condition: Condition) -> None:
    """Nothing changes if the condition doesn't hold."""
    update_if(Installation(subscription_id), *actions, condition=condition)
