"""Periodic wake-ups: which subscription is due in which minute, and the writes that keep it so.

Slots are fixed: a subscription's slot is computed from its id and its period, and a minute of the clock names the slots
that are due in it. So no row is rewritten when it is woken.

    slot              entries
    20:7              who is woken every 20 minutes, in those whose number since the epoch leaves 7 when divided by 20
    minutes           each period in use, as text, with the minute in which somebody last asked for it
    pending:<hour>    who is pending and due to expire in this hour since the epoch
    ticks             one row: the minute that the schedule began last

An active subscription with a period has one entry, a pending one that of its expiry; no other has any. Callers add the
writes to the transaction that changes the subscription.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import NamedTuple

from pynamodb.transactions import TransactWrite

from clarion.channels import CHANNELS
from clarion.decisions import SubscriptionStatus
from clarion.proofs import expires_at
from clarion.tables import Subscription, WakeUp

WAKING = tuple(channel for channel, spec in CHANNELS.items() if spec.wakes)
"""Which can wake an app without showing anything."""
LEAST_MINUTES, MOST_MINUTES = 20, 1440
EXPIRY_RETRY_HOURS = 24
"""How long the schedule comes back to what it could not end when it expired."""
PERIODS = "minutes"
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000


class DueSlot(NamedTuple):
    """`minute` is the one in which the slot is due, `next_minute` when it is due again; both count from the epoch."""

    slot: str
    minute: int
    next_minute: int


def slot_of(subscription_id: str, minutes: int) -> str:
    """The one slot, of a period of so many minutes, in which the subscription is due."""
    return _slot(minutes, int.from_bytes(sha256(subscription_id.encode()).digest()[:8]))


def slots_of(minutes: int) -> Iterator[str]:
    """All of a period."""
    return (_slot(minutes, phase) for phase in range(minutes))


def due_slots(periods: Iterable[int], after: int, at: int) -> Iterator[DueSlot]:
    """Those of the minutes from `after`, exclusively, to `at`. A slot that was due several times is there once."""
    for period in periods:
        for minute in range(max(after, at - period) + 1, at + 1):
            yield DueSlot(_slot(period, minute), minute, minute + period)


def expiry_slot(hour: int) -> str:
    """Of the subscriptions that expire in this hour since the epoch."""
    return f"pending:{hour}"


def expiry_slots(after: int, at: int) -> list[str]:
    """Of the hours that ended since the minute `after` and by the minute `at`, and of `EXPIRY_RETRY_HOURS` before."""
    return [expiry_slot(hour) for hour in range(after // 60 - EXPIRY_RETRY_HOURS, at // 60)]


def add_wake_up(write: TransactWrite, row: Subscription) -> None:
    """For a subscription that has become what `row` says."""
    if entry := _wake_up_of(row):
        _put(write, entry, row)


def remove_wake_up(write: TransactWrite, row: Subscription) -> None:
    """For a subscription that has been what `row` says."""
    if entry := _wake_up_of(row):
        write.delete(entry)


def change_wake_up(write: TransactWrite, before: Subscription, after: Subscription) -> None:
    """Both at once: a transaction takes one write of an entry."""
    old, new = _wake_up_of(before), _wake_up_of(after)
    if old and not (new and new.slot == old.slot):
        write.delete(old)
    if new and not (old and old.attribute_values == new.attribute_values):
        _put(write, new, after)


def add_expiry(write: TransactWrite, row: Subscription) -> None:
    if entry := _expiry_of(row):
        write.save(entry)


def remove_expiry(write: TransactWrite, row: Subscription) -> None:
    if entry := _expiry_of(row):
        write.delete(entry)


def _slot(period: int, minute: int) -> str:
    return f"{period}:{minute % period}"


def _put(write: TransactWrite, entry: WakeUp, row: Subscription) -> None:
    """The period is noted first, by a request of its own: in transactions, all that ask for the same would conflict."""
    WakeUp(PERIODS, str(int(row.wake_every_minutes)), minute=int(row.updated_at) // _MINUTE_MS).save()
    write.save(entry)


def _wake_up_of(row: Subscription) -> WakeUp | None:
    if row.status != SubscriptionStatus.ACTIVE or row.wake_every_minutes is None or row.channel not in WAKING:
        return None
    slot = slot_of(row.subscription_id, int(row.wake_every_minutes))
    return WakeUp(slot, row.subscription_id, network=row.network, channel=row.channel, client_id=row.client_id)


def _expiry_of(row: Subscription) -> WakeUp | None:
    if row.status != SubscriptionStatus.PENDING:
        return None
    return WakeUp(expiry_slot(expires_at(row) // _HOUR_MS), row.subscription_id)
