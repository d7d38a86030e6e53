"""`python -m pipeline JOB …`, and what spark-submit is given on EMR Serverless."""

import sys
from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """What reads the lake by itself starts within a second, for it imports nothing of Spark."""
    given = list(sys.argv[1:] if words is None else words)
    if given[:1] in (["explain"], ["erase"]):
        from pipeline import direct  # noqa: PLC0415 - and no more than that

        return direct.main(given)
    from pipeline import cli  # noqa: PLC0415 - Spark takes its time

    return cli.main(given)


if __name__ == "__main__":
    raise SystemExit(main())
