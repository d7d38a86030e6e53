"""What counts once: the tokens of accepted requests, until they expire, and the ids that projects give notifications.

The first holder of a key is stored, and returned to everybody who asks later: also to itself, if it is retried. That is
one unconditional update. A row that has expired and is yet to be removed is harmless: nobody asks for its key any longer.
"""

from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UnicodeSetAttribute
from pynamodb.models import Model

from clarion.networks.walletconnect.needs import SEEN


class SeenOnce(Model):
    """`holder` is the first one; `at` is when it came, in UNIX milliseconds. `times` counts all."""

    class Meta:
        table_name = SEEN

    key = UnicodeAttribute(hash_key=True)
    holder = UnicodeAttribute()
    at = NumberAttribute()
    times = NumberAttribute(null=True)
    ttl = NumberAttribute()


class UnpublishedNotification(Model):
    """A command of a dapp, by `key`, and the ids of the `subscriptions` whose messages are yet to be published."""

    class Meta:
        table_name = SEEN

    key = UnicodeAttribute(hash_key=True)
    subscriptions = UnicodeSetAttribute()
    ttl = NumberAttribute()

    def __repr__(self) -> str:
        return f"UnpublishedNotification({self.key})"


def first_seen(key: str, holder: str, *, at_ms: int, until: int) -> SeenOnce:
    """The row of the first holder: `holder` if there was none. `until` is in UNIX seconds."""
    row = SeenOnce(key)
    columns = ((SeenOnce.holder, holder), (SeenOnce.at, at_ms), (SeenOnce.ttl, until))
    row.update([*(column.set(column | value) for column, value in columns), SeenOnce.times.add(1)])
    return row
