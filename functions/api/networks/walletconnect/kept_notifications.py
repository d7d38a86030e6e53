"""A notification is kept for each subscriber before it is sent, by which it takes a token of the subscriber's bucket.

    the newest that is known ──▶ the next number ──▶ free: kept
              ▲                        │
              │                      taken
              └── whatever came since ◀┘ ──▶ one of the same id: kept already

What is known may be out of date, since only the one number is free that follows the newest of all. Two requests with the
same id keep one notification: neither takes a number before it has seen all that may be the other's.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

from clarion.networks.walletconnect import notifications
from clarion.networks.walletconnect.buckets import NOTIFY_OF_SUBSCRIBER, refilled, spent_with_one_more
from clarion.networks.walletconnect.notifications import AddressedNotification, SentNotification


class NewestNotification(NamedTuple):
    """What is known of a subscriber's bucket."""

    number: int = 0
    spent: int = 0

    @classmethod
    def of(cls, row: SentNotification) -> Self:
        return cls(int(row.number), int(row.spent))

    def number_before(self, instant: int) -> int:
        """A number whose notification, and all before it, were kept before `instant`, in UNIX milliseconds.

        Each spent a token at least. Clocks may differ by less than the bucket's interval.
        """
        before = refilled(NOTIFY_OF_SUBSCRIBER, instant - NOTIFY_OF_SUBSCRIBER.interval)
        return self.number - max(0, self.spent - before)


def newest_notification(subscription_id: str) -> NewestNotification:
    """As it was a moment ago, at half the price."""
    found = SentNotification.query(
        subscription_id, scan_index_forward=False, limit=1, attributes_to_get=["number", "spent"]
    )
    return next(map(NewestNotification.of, found), NewestNotification())


@dataclass(frozen=True, slots=True)
class Keeping:
    """Of one notification. `server` is the Notify server's domain; `now` is in UNIX milliseconds."""

    addressed: AddressedNotification
    server: str
    now: int

    def keep(self, newest: NewestNotification) -> SentNotification | None:
        """None if the bucket is empty. Neither the `newest` nor any before it has the same id."""
        spent = spent_with_one_more(NOTIFY_OF_SUBSCRIBER, newest.spent, self.now)
        if spent is None:
            return None
        row = self.addressed.row(newest.number + 1, self.server, spent)
        row.kept_at = self.now
        return row if notifications.add(row) else self.keep_unless_kept(newest, newest.number)

    def keep_unless_kept(self, newest: NewestNotification, after: int) -> SentNotification | None:
        """The same, if one may have the same id whose number comes after `after`."""
        own_id, number = self.addressed.id, SentNotification.number
        for row in SentNotification.query(self.addressed.subscription_id, number > after, consistent_read=True):
            if row.notification_id == own_id:
                return row
            newest = NewestNotification.of(row)
        return self.keep(newest)
