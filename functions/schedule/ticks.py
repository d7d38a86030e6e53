"""One call for each minute of the clock. What EventBridge leaves out, the next call makes up for: one row remembers.

    the row's minute    begin(at)                          what the call has to do
    ├─ at - 1           minute := at                       this minute's slots
    ├─ earlier, none    late, minute := at, after := it    the slots since then, each once; counted as missed
    └─ at, or later     stays: the call comes again        the same again if it is the one that was late,
                                                           else this minute's slots

The row is written before anything is sent, so that the next call doesn't repeat one that takes longer than a minute, and
after the first reading: a call that can't reach the tables leaves its minutes to the next one. What fails later Lambda
calls again, though the next minutes may have begun by then.
"""

from clarion.tables import WakeUp, update_if

TICKS, LATEST = "ticks", "latest"


def begin(at: int) -> int:
    """Returns the minute through which all has begun before; both count from the epoch."""
    row = WakeUp(TICKS, LATEST)
    if update_if(row, WakeUp.minute.set(at), condition=WakeUp.minute == at - 1):
        return at - 1
    late = (WakeUp.after.set(WakeUp.minute | (at - 1)), WakeUp.late.set(at), WakeUp.minute.set(at))
    if not update_if(row, *late, condition=WakeUp.minute.does_not_exist() | (WakeUp.minute < at)):
        row.refresh(consistent_read=True)
    return int(row.after) if row.late == at else at - 1
