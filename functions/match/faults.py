"""Work that reaches AWS runs side by side; what fails is a value, so that the rest of a batch goes on."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from typing import NamedTuple

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

AWS_ERRORS = (BotoCoreError, ClientError, PynamoDBException)


class Fault(NamedTuple):
    """AWS refused or didn't answer, after the SDK's own retries; the queue brings the statement again."""

    reason: str


def settle[Task, Result](
    pool: Executor, work: Callable[[Task], Result], tasks: Iterable[Task]
) -> list[tuple[Task, Result | Fault]]:
    """Do `work` for every task at once. Errors that aren't AWS's are raised."""

    def attempt(task: Task) -> tuple[Task, Result | Fault]:
        try:
            return task, work(task)
        except AWS_ERRORS as error:
            return task, Fault(f"{type(error).__name__}: {error}")

    waiting = list(tasks)
    return list(pool.map(attempt, waiting) if len(waiting) > 1 else map(attempt, waiting))


def sound[Key, Value](found: Mapping[Key, Value | Fault]) -> dict[Key, Value] | Fault:
    """What was found, unless part of it could not be."""
    values: dict[Key, Value] = {}
    for key, value in found.items():
        if isinstance(value, Fault):
            return value
        values[key] = value
    return values
