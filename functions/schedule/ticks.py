"""One call for each minute of the clock. What EventBridge leaves out, the next call makes up for: one row remembers.

    the row has    begin(at)             what the call has to do
    ├─ at - 1      minute := at          this minute's slots
    ├─ earlier     minute := at          the slots since then, each once; counted as missed
    ├─ at          the call comes again  the same again
    └─ later       stays                 this minute's slots

The row is written before anything is sent, so that the next call doesn't repeat one that takes longer than a minute, and
after the first reading: a call that can't reach the tables leaves its minutes to the next one. What fails later Lambda
calls again.
"""

from pynamodb.exceptions import UpdateError

from clarion.tables import WakeUp, refused

TICKS, LATEST = "ticks", "latest"


def begin(at: int) -> int:
    """Returns the minute through which all has begun before; both count from the epoch."""
    row = WakeUp(TICKS, LATEST)
    is_next = WakeUp.minute.does_not_exist() | (WakeUp.minute < at)
    try:
        row.update([WakeUp.after.set(WakeUp.minute | (at - 1)), WakeUp.minute.set(at)], condition=is_next)
    except UpdateError as error:
        if not refused(error):
            raise
        row.refresh(consistent_read=True)
    return int(row.after) if row.minute == at else at - 1
