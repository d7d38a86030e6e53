"""What the parts of the emulated stack take of the machine's processors. Linux only."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

TICKS = os.sysconf("SC_CLK_TCK")
PARTS = {"recorded_emulator.py": "the emulator", "_worker.py": "functions", "ingest": "ingest"}
"""By the end of a word of a process's command line; the first that is there counts."""
REST = "the bench, its nodes and providers"


@dataclass(frozen=True)
class ProcessorTime:
    """Of this process and all that descend from it, since `since` by the monotonic clock; `before` are seconds by part."""

    since: float
    before: Mapping[str, float]

    @classmethod
    def begin(cls) -> Self:
        return cls(time.monotonic(), _seconds_by_part())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since

    def taken(self) -> Mapping[str, float]:
        """Seconds by part, of all parts."""
        now = _seconds_by_part()
        return {part: now[part] - self.before[part] for part in now}


def processor_seconds() -> float:
    """What this process and all that descend from it have taken of the processors so far."""
    return sum(ticks for _, ticks in _descendants(os.getpid())) / TICKS


def _seconds_by_part() -> Mapping[str, float]:
    """With the processes that have ended and were waited for, which count for those that waited."""
    taken = dict.fromkeys([*PARTS.values(), REST], 0.0)
    for pid, ticks in _descendants(os.getpid()):
        taken[_part_of(pid)] += ticks / TICKS
    return taken


def _part_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return REST
    return next((part for end, part in PARTS.items() if any(word.endswith(end) for word in words)), REST)


def _descendants(root: int) -> Iterator[tuple[int, int]]:
    """The process `root` and its descendants, each with its ticks of the processor: proc_pid_stat(5)."""
    found = dict(_processes())
    family = {root}
    while more := {pid for pid, (parent, _) in found.items() if parent in family} - family:
        family |= more
    return ((pid, found[pid][1]) for pid in family if pid in found)


def _processes() -> Iterator[tuple[int, tuple[int, int]]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield int(stat.parent.name), (int(fields[1]), sum(map(int, fields[11:15])))
