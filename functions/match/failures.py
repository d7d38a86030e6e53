"""Work that reaches AWS runs side by side; what fails is a value, so that the rest of a batch goes on."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

from clarion.faults import AWS_ERRORS, describe


class Failure(NamedTuple):
    """AWS refused or didn't answer, after the SDK's own retries, or a row can't be read.

    The queue delivers the message again; after its last receive it is dead-lettered.
    """

    reason: str


class Unreadable(Failure):
    """A row that can't be read: no further attempt helps, and whoever needs only others can go on."""

    __slots__ = ()


NO_TIME = Failure("no time left")
THROTTLED = Failure("left unread by a throttle")


class Pool(NamedTuple):
    """Threads that wait for AWS's answers. Nothing begins once `may_begin` says no."""

    executor: Executor
    may_begin: Callable[[], bool] = lambda: True

    def map_concurrently[Key, Task, Result](
        self, work: Callable[[Task], Result], tasks: Mapping[Key, Task]
    ) -> dict[Key, Result | Failure]:
        """Do `work` for all tasks side by side. Each fails by itself: one bad row must not fail the batch."""
        each = self.executor.map if len(tasks) > 1 else map
        return dict(zip(tasks, each(partial(self._begin, work), tasks.values()), strict=True))

    def _begin[Task, Result](self, work: Callable[[Task], Result], task: Task) -> Result | Failure:
        return attempt(work, task) if self.may_begin() else NO_TIME


def attempt[Task, Result](work: Callable[[Task], Result], task: Task) -> Result | Failure:
    """What `work` makes of a task. A failure may pass, unless it is one of reading."""
    try:
        return work(task)
    except AWS_ERRORS as error:
        return Failure(describe(error))
    except Exception as error:  # noqa: BLE001 - rows and networks' content are read, which may raise anything
        return _unreadable(error)


def read_row[Row, Result](read: Callable[[Row], Result], row: Row) -> Result | Unreadable:
    """What `read` makes of a row; AWS's errors pass through."""
    try:
        return read(row)
    except AWS_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001 - a network reads its own conditions, and may raise anything
        return _unreadable(error)


def _unreadable(error: Exception) -> Unreadable:
    """Without the error's text, which may quote what was read."""
    return Unreadable(f"{type(error).__name__} at {_place(error)}")


def _place(error: Exception) -> str:
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"


def bisect_on_failure[Key, Value](
    read: Callable[[Sequence[Key]], Mapping[Key, Value]], keys: Sequence[Key]
) -> dict[Key, Value | Unreadable]:
    """What `read` finds for `keys`. One row that can't be read fails the whole request.

    Then each half is requested by itself, down to the single key.
    """
    found = read_row(read, keys)
    if not isinstance(found, Unreadable):
        return dict(found)
    if len(keys) == 1:
        return {keys[0]: found}
    middle = len(keys) // 2
    return bisect_on_failure(read, keys[:middle]) | bisect_on_failure(read, keys[middle:])


def split_failures[Key, Value](found: Mapping[Key, Value | Failure]) -> tuple[dict[Key, Value], dict[Key, Failure]]:
    """The values, and apart from them the failures."""
    values: dict[Key, Value] = {}
    failures: dict[Key, Failure] = {}
    for key, one in found.items():
        if isinstance(one, Failure):
            failures[key] = one
        else:
            values[key] = one
    return values, failures
