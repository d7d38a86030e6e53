"""Work that reaches AWS runs side by side; what fails is a value, so that the rest of a batch goes on."""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

AWS_ERRORS = (BotoCoreError, ClientError, PynamoDBException)

UNREADABLE = (ValueError, TypeError, LookupError)
"""What a row of another shape than its model, or with a word outside its vocabulary, makes of its reader."""


class Fault(NamedTuple):
    """What stands in the way: AWS refused or didn't answer, after the SDK's own retries, or a row can't be read.

    The queue brings the statement again, and if that doesn't help, takes it to the dead-letter queue.
    """

    reason: str


class Unreadable(Fault):
    """A row that can't be read: no further attempt helps, and who needs only others can go on."""

    __slots__ = ()


def settle[Task, Result](
    pool: Executor, work: Callable[[Task], Result], tasks: Iterable[Task]
) -> list[tuple[Task, Result | Fault]]:
    """Do `work` for every task at once. Each fails by itself: one bad row must not take the batch along."""
    waiting = list(tasks)
    one = partial(attempt, work)
    results = pool.map(one, waiting) if len(waiting) > 1 else map(one, waiting)
    return list(zip(waiting, results, strict=True))


def attempt[Task, Result](work: Callable[[Task], Result], task: Task) -> Result | Fault:
    try:
        return legible(work, task)
    except AWS_ERRORS as error:
        return Fault(_answered(error))


def legible[Row, Result](read: Callable[[Row], Result], row: Row) -> Result | Unreadable:
    try:
        return read(row)
    except UNREADABLE as error:
        return _unreadable(error)


def asunder[Key, Value](
    read: Callable[[Sequence[Key]], Mapping[Key, Value]], keys: Sequence[Key]
) -> dict[Key, Value | Unreadable]:
    """What `read` finds for `keys`. One row that can't be read spoils the answer for all.

    Then each half is asked for by itself, down to the one.
    """
    found = legible(read, keys)
    if not isinstance(found, Unreadable):
        return dict(found)
    if len(keys) == 1:
        return {keys[0]: found}
    middle = len(keys) // 2
    return asunder(read, keys[:middle]) | asunder(read, keys[middle:])


def _unreadable(error: Exception) -> Unreadable:
    """Without the error's text, which may quote what it read."""
    return Unreadable(f"{type(error).__name__} at {_place(error)}")


def _answered(error: Exception) -> str:
    """What AWS said, to which request. Its text may quote the request, with what signed it."""
    cause = error.cause if isinstance(error, PynamoDBException) and error.cause else error
    if isinstance(cause, ClientError):
        return f"{cause.response['Error']['Code']} from {cause.operation_name}"
    return type(cause).__name__


def _place(error: Exception) -> str:
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"


def sound[Key, Value](found: Mapping[Key, Value | Fault]) -> dict[Key, Value] | Fault:
    """What was found, unless part of it could not be."""
    values: dict[Key, Value] = {}
    for key, value in found.items():
        if isinstance(value, Fault):
            return value
        values[key] = value
    return values
