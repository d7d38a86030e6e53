"""What a command says while it runs, and how it ends."""

import sys
from collections.abc import Callable
from enum import IntEnum

PREFIX = "» "
ON_INTERRUPTION = "interrupted: what was not committed counts as not done; run it again"
"""The last line of a command that is stopped."""


class ExitCode(IntEnum):
    """The exit codes; docs/lake.md says under "How a job ends" what each means."""

    DONE = 0
    FINDING = 1
    BAD_USAGE = 2
    NOT_SURE = 3
    NO_ANSWER = 4
    INTERRUPTED = 130


def log(line: str) -> None:
    print(f"{PREFIX}{line}", file=sys.stderr, flush=True)


def every_thousand(done: str) -> Callable[[int], None]:
    """Logs how much is `done`, after each thousand."""
    logged = 0

    def report(count: int) -> None:
        nonlocal logged
        if count - logged >= 1_000:
            logged = count
            log(f"{count:>12,} {done}")

    return report
