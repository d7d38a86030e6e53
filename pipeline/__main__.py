"""`python -m pipeline JOB …`, and what spark-submit is given on EMR Serverless."""

import sys
from collections.abc import Sequence

from pipeline.terminal import ON_INTERRUPTION, Exit, log


def main(words: Sequence[str] | None = None) -> int:
    """The exit code. Once Spark is at work, an interruption ends as `ending.ended_by_signals` says."""
    try:
        return _run(list(sys.argv[1:] if words is None else words))
    except KeyboardInterrupt:
        log(ON_INTERRUPTION)
        return Exit.INTERRUPTED


def _run(given: list[str]) -> int:
    """What reads the lake by itself starts within a second, for it imports nothing of Spark."""
    if given[:1] in (["explain"], ["erase"]):
        from pipeline import direct  # noqa: PLC0415 - and no more than that

        return direct.main(given)
    from pipeline import cli  # noqa: PLC0415 - Spark takes its time

    return cli.main(given)


if __name__ == "__main__":
    raise SystemExit(main())
