"""The runs of `replay`: each is a commit of its own, so that its manifest expires with the plan that it names.

replays/run=000042/commit=<id>/….parquet   what was planned, a commit of that name: see `pipeline.lake.commits`
replayed/000042                            how far it has been sent, and who is at it
"""

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from clarion.clock import now_ms
from pipeline.lake.commits import MANIFESTS, DamagedRecord, Manifest, name_of, read_manifests, whole
from pipeline.lake.files import joined, listed, read_text, swap_text

REPLAYS, PROGRESS = "replays", "replayed"
LEASE_MS = 120_000
"""Lease of a run: longer than a batch takes. Another process may take over this long after a sender was killed."""
_RUN = re.compile(r"run=(\d+)\.json|(\d+)")
"""The name of a run's manifest, or of its progress. What has another one was moved aside, or is a killed writer's."""


@dataclass(frozen=True)
class RunProgress:
    """What of a run has been `sent`, up to that place in its plan, and until when (UNIX milliseconds) its `holder` has it."""

    sent: int = -1
    done: bool = False
    holder: str = ""
    until: int = 0

    @classmethod
    def of(cls, text: str | None, path: str) -> "RunProgress":
        """Of the JSON at `path`; None is that of a run that was not begun. What a later release has added is passed over.

        Raises `DamagedRecord`.
        """
        if text is None:
            return cls()
        try:
            known = json.loads(whole(text))
            return cls(int(known["sent"]), bool(known["done"]), str(known["holder"]), int(known["until"]))
        except (ValueError, LookupError, TypeError) as error:
            raise DamagedRecord(f"{path} can't be read: {error}") from error


class RunLease:
    """One holder at a time sends a run, or erases a client. Each step is a conditional write:

        free, or expired ──take──▶ held ──advance──▶ held, so much further ──finish──▶ done
                                    └──release──▶ free

    `pause_ms` is how long the holder may wait from one batch to the next.
    """

    def __init__(
        self, root: str, run: str, *, folder: str = PROGRESS, pause_ms: int = 0, clock: Callable[[], int] = now_ms
    ) -> None:
        self._path = joined(root, f"{folder}/{run}")
        self._holder = secrets.token_hex(8)
        self._life_ms = LEASE_MS + pause_ms
        self._clock = clock

    def take(self) -> int | None:
        """Take the lease; returns the last place sent, or -1. None if another process has it, or the run is finished."""
        found = RunProgress()

        def taken(known: RunProgress) -> RunProgress | None:
            nonlocal found
            found = known
            return None if known.done or known.until > self._clock() else self._held(known)

        return found.sent if self._swap(taken) else None

    def advance(self, place: int) -> bool:
        """After all up to `place` has been sent. If it returns False another process has the run now."""
        return self._swap(lambda known: self._held(replace(known, sent=place)) if self._is_mine(known) else None)

    def finish(self) -> None:
        self._swap(lambda known: RunProgress(known.sent, done=True) if self._is_mine(known) else None)

    def release(self) -> None:
        self._swap(lambda known: RunProgress(known.sent) if self._is_mine(known) else None)

    def _is_mine(self, known: RunProgress) -> bool:
        return known.holder == self._holder

    def _held(self, known: RunProgress) -> RunProgress:
        return replace(known, holder=self._holder, until=self._clock() + self._life_ms)

    def _swap(self, change: Callable[[RunProgress], RunProgress | None]) -> bool:
        def changed(text: str | None) -> str | None:
            new = change(RunProgress.of(text, self._path))
            return json.dumps(asdict(new)) if new else None

        return swap_text(self._path, changed)


def run_name(run: str) -> str:
    return f"{REPLAYS}/run={run}"


def run_of(manifest: Manifest) -> str:
    return manifest.hour.partition("=")[2]


def runs_since(root: str, moment: int) -> list[Manifest]:
    """Those that were planned since then (UNIX milliseconds), in order."""
    paths = (path for path in listed(root, f"{MANIFESTS}/{REPLAYS}") if _RUN.fullmatch(path.rpartition("/")[2]))
    names = list(map(name_of, sorted(paths)))
    return [run for run in read_manifests(root, names) if (run.sealed_at or 0) >= moment]


def progress(root: str, run: str) -> RunProgress:
    path = joined(root, f"{PROGRESS}/{run}")
    return RunProgress.of(read_text(path), path)


def next_run(root: str) -> str:
    """The number after the last: two that plan at once choose the same, and the commit of the second one fails."""
    names = (
        path.rpartition("/")[2] for folder in (f"{MANIFESTS}/{REPLAYS}", PROGRESS) for path in listed(root, folder)
    )
    runs = (int(found[1] or found[2]) for name in names if (found := _RUN.fullmatch(name)))
    return f"{max(runs, default=0) + 1:06}"
