"""All of Clarion's figures beside their anchors: `make bench` writes docs/bench.md's tables and `.build/bench.json`.

    python -m bench.all [PART ...]

With parts, such as `bench.codec`, only their figures are measured, and printed. The last line has all of them.
"""

import json
import os
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from functools import reduce
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from bench.figures import Figure, report, table
from bench.markdown import inserted, table_row

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "bench.md"
FIGURES = ROOT / ".build" / "bench.json"
PARTS = (
    "bench.codec",
    "bench.match",
    "bench.ingest",
    "bench.schedule",
    "bench.dispatch",
    "bench.simplex",
    "tests.ledger.whole_bill",
    "bench.pace",
)
"""Modules that have `figures`, in the page's order."""


def measured(part: str, *effort: object) -> list[Figure]:
    """In a process of its own, so that no part finds what another has left."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_figures_of, part, *effort).result()


def _figures_of(part: str, *effort: object) -> list[Figure]:
    found: list[Figure] = import_module(part).figures(*effort)
    return found


def machine() -> list[str]:
    """The lines of a table of what the figures depend on."""
    [model, *_] = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    facts = {
        "measured on": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": model.partition(": ")[2],
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        "processes that ran or waited for a core before": f"{os.getloadavg()[0]:.1f}",
    }
    return [table_row(["machine", ""]), table_row(["---", "---"]), *map(table_row, facts.items())]


def write(machine: list[str], figures: Sequence[Figure]) -> None:
    PAGE.write_text(reduce(inserted, (machine, table(figures)), PAGE.read_text()))
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text(json.dumps([asdict(figure) for figure in figures], indent=2, ensure_ascii=False) + "\n")


def main() -> None:
    before, parts = machine(), sys.argv[1:]
    figures = []
    for part in parts or PARTS:
        print(f"» {part}", flush=True)
        figures += measured(part)
    report(figures)
    if not parts:
        write(before, figures)
    print(f"bench: {'; '.join(map(str, figures))}")


if __name__ == "__main__":
    main()
