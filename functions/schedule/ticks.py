"""One call for each minute of the clock, which one row remembers: what EventBridge leaves out, the next call makes up for.

    after = what the row says     row := at                          call fails
    ├─ the minute before ───────▶ this minute's slots               ├─ Lambda calls again, twice: the row says `at`,
    ├─ an earlier one ──────────▶ all since then, each slot once    │  so this minute's slots alone
    └─ this one, or a later ────▶ this minute's slots again         └─ and then the alarm `function-failing`

The row is written first, so that a call which takes longer than a minute is not repeated by the next one.
"""

from pynamodb.connection import Connection
from pynamodb.exceptions import UpdateError

from clarion.tables import WakeUp, refused

TICKS, LATEST = "ticks", "latest"


def begin(connection: Connection, at: int) -> int:
    """Returns the minute through which all has begun before; both count from the epoch."""
    later = WakeUp.minute.does_not_exist() | (WakeUp.minute < at)
    try:
        answer = connection.update_item(
            WakeUp.Meta.table_name,
            TICKS,
            LATEST,
            actions=[WakeUp.minute.set(at)],
            condition=later,
            return_values="UPDATED_OLD",
        )
    except UpdateError as error:
        if refused(error):
            return at - 1
        raise
    before = answer.get("Attributes")
    return int(before["minute"]["N"]) if before else at - 1
