"""What went wrong by a bug, for the log: the error's own text may quote what was shown, and with it secrets."""

import traceback

from clarion.faults import describe


def traces(error: Exception) -> list[str]:
    """Where `error` was raised and of which class it is, without its text; of a group, each error in it."""
    if isinstance(error, ExceptionGroup):
        return [trace for each in error.exceptions for trace in traces(each)]
    return ["".join([*traceback.format_tb(error.__traceback__), describe(error)])]
