"""The periods that anybody is woken by: each is one slot more to read every minute.

A period's row is written, with the minute, before the entry of whoever asks for it, and removed by a conditional write:

    API        minute := now ─────▶ entry
    schedule               all slots are empty ─────▶ removed, unless its minute is of the last hour
"""

from pynamodb.exceptions import DeleteError

from clarion.tables import WakeUp, refused
from clarion.wake_ups import MOST_MINUTES, PERIODS, slots_of

HOUR = 60
"""Minutes: whoever has asked for a period has an entry by then, or never will."""


def periods_in_use() -> list[int]:
    """In minutes."""
    return [int(row.subscription_id) for row in WakeUp.query(PERIODS)]


def examined_at(at: int) -> int:
    """The period that the minute `at` examines: each of them once a day."""
    return at % MOST_MINUTES or MOST_MINUTES


def remove_if_unused(period: int, at: int) -> None:
    """Reads up to as many slots as the period has minutes."""
    if any(map(_has_entries, slots_of(period))):
        return
    try:
        WakeUp(PERIODS, str(period)).delete(condition=WakeUp.minute < at - HOUR)
    except DeleteError as error:
        if not refused(error):
            raise


def _has_entries(slot: str) -> bool:
    return any(True for _ in WakeUp.query(slot, limit=1, consistent_read=True))
