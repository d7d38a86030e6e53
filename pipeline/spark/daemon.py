"""What forks Spark's Python workers on one machine, in the place of PySpark's own daemon.

It imports what workers need once, before it forks, and from the installed packages: Spark puts an archive of PySpark's
sources before them, which Python compiles anew each time. And a worker that Spark has no more use for ends in silence:
after a minute Spark closes the connections of idle ones, to which PySpark's worker would write that its input has ended.
"""

import gc
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from io import BufferedReader, BufferedWriter
from typing import Any

IMPORTED = (
    "pandas",
    "pyarrow.dataset",
    "pipeline.lake.event_lake",
    "pipeline.lake.raw",
    "pipeline.reconciliation.verdicts",
    "pipeline.reconciliation.verify",
    "pipeline.reconciliation.wanted",
)


def main() -> None:
    sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
    for name in IMPORTED:
        import_module(name)
    daemon: Any = import_module("pyspark.daemon")
    daemon.worker_main = partial(work_or_end, daemon.worker_main)
    # After each task a worker collects garbage: it needn't look at all that was ever imported.
    gc.freeze()
    daemon.manager()


def work_or_end(
    work: Callable[[BufferedReader, BufferedWriter], None], infile: BufferedReader, outfile: BufferedWriter
) -> None:
    """One task; or, if the connection is closed before there is one, an end that writes nothing."""
    if not infile.peek(1):
        raise SystemExit(1)
    work(infile, outfile)


if __name__ == "__main__":
    main()
