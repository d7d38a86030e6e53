"""What the benches measure, and the one way in which it is shown."""

import json
import os
import platform
import timeit
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import process_time
from typing import Self

from bench.markdown import table_row

MEASURED = Path(__file__).parent / "measured.json"
"""What docs/scale.md is computed from."""
CALLS = 40
"""In a turn."""


@dataclass(frozen=True)
class Figure:
    """One thing that was measured. `anchor` is the same of what the name says it stands beside, `ratio` ours to that."""

    name: str
    ours: float
    anchor: float | None
    ratio: float | None
    unit: str

    @classmethod
    def alone(cls, name: str, ours: float, unit: str) -> Self:
        return cls(name, ours, None, None, unit)

    @classmethod
    def beside(cls, name: str, ours: float, anchor: float, unit: str) -> Self:
        return cls(name, ours, anchor, ours / anchor, unit)

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f" ({shown(self.ratio)} times)"
        return f"{self.name} {shown(self.ours)} {self.unit}{ratio}"


def table(figures: Iterable[Figure]) -> list[str]:
    """The lines of a table in Markdown."""
    cells = ([each.name, *map(shown, (each.ours, each.anchor, each.ratio)), each.unit] for each in figures)
    return [
        table_row(["figure", "Clarion", "anchor", "ratio", "unit"]),
        table_row(["---", "--:", "--:", "--:", "---"]),
        *map(table_row, cells),
    ]


def report(figures: Iterable[Figure]) -> None:
    print("\n".join(table(figures)))


def record(command: str, **measured: tuple[float, str]) -> None:
    """Write each figure in seconds to bench/measured.json, with what it is of, and the command that measured it."""
    machine = f"{os.cpu_count()} processors ({platform.machine()}) with {os.getloadavg()[0]:.0f} processes to run"
    how = f"{command}, {datetime.now(UTC):%Y-%m-%d}, {machine}"
    figures = json.loads(MEASURED.read_text())
    figures |= {name: {"value": float(f"{s:.3g}"), "how": f"{how}: {of}"} for name, (s, of) in measured.items()}
    MEASURED.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


def shown(value: float | None) -> str:
    """Three digits, or all that are before the point."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def compare(name: str, ours: Callable[[], object], anchor: Callable[[], object], turns: int) -> Figure:
    """Microseconds of the processor's time for a call of each, in short turns: of each the best.

    The ratio is the median of the turns' ratios, so that whatever else the machine does hits both alike.
    """
    taken = [(_microseconds(ours), _microseconds(anchor)) for _ in range(turns)]
    best, best_anchor = map(min, zip(*taken, strict=True))
    return Figure(name, best, best_anchor, median(one / other for one, other in taken), "µs")


def best_microseconds(call: Callable[[], object], turns: int) -> float:
    """The best of many short turns, by the processor's time, which no other process takes part in."""
    return min(_microseconds(call) for _ in range(turns))


def _microseconds(call: Callable[[], object]) -> float:
    return timeit.timeit(call, number=CALLS, timer=process_time) / CALLS * 1e6
