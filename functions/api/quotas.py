"""Allowances, counted in DynamoDB: one conditional write each, exact whatever races."""

from pynamodb.exceptions import UpdateError

from clarion.tables import Quota, refused

SPARE_SECONDS = 60
"""How long a used-up allowance outlives its window: clocks differ."""


def take(what: str, *, limit: int, seconds: int, now: int, amount: int = 1) -> int | None:
    """Use `amount` of `limit` in the current window of so many seconds; the seconds left in it if there is less.

    `now` is in UNIX milliseconds. Across the border of two windows a client may use both allowances at once.
    """
    second = now // 1000
    window, into = divmod(second, seconds)
    left = seconds - into
    return None if _count(f"{what}:{window}", limit, second + left, amount) else left


def once(what: str, *, until: int) -> bool:
    """Whether this is the first time. `until`, in UNIX seconds, is when `what` stops to matter."""
    return _count(what, 1, until)


def _count(quota: str, limit: int, until: int, amount: int = 1) -> bool:
    if amount > limit:
        return False
    enough_left = Quota.quota.does_not_exist() | (Quota.used <= limit - amount)
    try:
        Quota(quota).update([Quota.used.add(amount), Quota.ttl.set(until + SPARE_SECONDS)], condition=enough_left)
    except UpdateError as error:
        if refused(error):
            return False
        raise
    return True
