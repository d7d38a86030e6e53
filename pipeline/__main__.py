"""`python -m pipeline JOB …`, and what spark-submit is given on EMR Serverless."""

import signal
import sys
from collections.abc import Sequence

from pipeline import arguments
from pipeline.terminal import ON_INTERRUPTION, ExitCode, log


def main(words: Sequence[str] | None = None) -> int:
    """The exit code. Once Spark is at work, an interruption ends as `ending.ended_by_signals` says."""
    if words is None:
        # By itself the process would end at once, and leave what it has written to temporary files: events.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return _run(words)
    except KeyboardInterrupt:
        log(ON_INTERRUPTION)
        return ExitCode.INTERRUPTED


def _run(words: Sequence[str] | None) -> int:
    """What reads the lake by itself starts within a second, for it imports nothing of Spark."""
    options = arguments.parse(words)
    if options.job in {"explain", "erase"}:
        from pipeline import direct  # noqa: PLC0415 - and no more than that

        return direct.run(options)
    from pipeline import cli  # noqa: PLC0415 - Spark takes its time

    return cli.run(options)


if __name__ == "__main__":
    raise SystemExit(main())
