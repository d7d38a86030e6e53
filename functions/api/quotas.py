"""Allowances, counted in DynamoDB: one conditional write each, exact whatever races."""

from typing import NamedTuple

from api.problems import Problem, ProblemKind
from clarion.tables import Quota, update_if

SPARE_SECONDS = 60
"""How long a used-up allowance outlives its window: clocks differ."""


class Rate(NamedTuple):
    """So many in a window of so many seconds. Across the border of two windows, both allowances may be used at once."""

    limit: int
    seconds: int


def require(what: str, rate: Rate, now: int, detail: str, amount: int = 1) -> None:
    """Use `amount` of the current window, or raise `Problem`, with `detail` for people, if there is less left in it."""
    if wait := take(what, rate, now, amount):
        raise Problem(ProblemKind.TOO_MANY_REQUESTS, detail, headers={"Retry-After": str(wait)})


def take(what: str, rate: Rate, now: int, amount: int = 1) -> int | None:
    """Use `amount` of the current window; the seconds left in it if there is less. `now` is in UNIX milliseconds."""
    second = now // 1000
    window, into = divmod(second, rate.seconds)
    left = rate.seconds - into
    return None if _count(f"{what}:{window}", rate.limit, second + left, amount) else left


def once(what: str, *, until: int) -> bool:
    """Whether this is the first time. `until`, in UNIX seconds, is when `what` stops to matter."""
    return _count(what, 1, until)


def _count(quota: str, limit: int, until: int, amount: int = 1) -> bool:
    if amount > limit:
        return False
    enough_left = Quota.quota.does_not_exist() | (Quota.used <= limit - amount)
    actions = (Quota.used.add(amount), Quota.ttl.set(until + SPARE_SECONDS))
    return update_if(Quota(quota), *actions, condition=enough_left)
