"""Snapshots by day: what a job would otherwise have to put together from all days before.

    snapshots/<name>/day=2026-11-20/commit=<id>/….parquet   sorted, a commit of that name: see `pipeline.lake.commits`

`pipeline.in_force.states` keeps those of what is in force, `pipeline.reconciliation.claims` those of claims.
"""

import re
from collections.abc import Mapping
from operator import attrgetter

from clarion.claims import LONGEST
from pipeline.columns import EventKind
from pipeline.lake.commits import MANIFESTS, Manifest, manifest_path, read_manifest, read_manifests
from pipeline.lake.files import listed, remove
from pipeline.period import DAY_MS, HOUR_MS, LATEST_MS, SNAPSHOT_DAYS, Period, hour_path, hour_start, is_hour

SNAPSHOTS, CLAIMS = "snapshots", "claims"
"""The folder, and the name of the snapshots of claims; those of what is in force have the names of their kinds."""
IN_FORCE = (EventKind.SUBSCRIPTION, EventKind.RULES, EventKind.LIMITS)
"""These kinds. In this order: which rules count is a matter of their subscriptions."""
SNAPSHOT_LEAD_MS = HOUR_MS
"""Time between a snapshot's end and the first instant judged by it: it lacks what ended shortly before its end."""
LATE_FILES_MS = 2 * DAY_MS
"""How long an hour may still change after a snapshot has read it: Firehose retries a failed delivery for a day."""
CLAIM_LOOKBACK_MS = LONGEST * 1000 + LATEST_MS
"""How far back a claim may have been made that still holds: the envelope may have been decided late."""
_MANIFEST = re.compile(r"day=(\d{4}-\d\d-\d\d)\.json")
"""What has another name was moved aside, or is a writer's that was killed."""


def day_of(instant: int) -> Period:
    start = instant // DAY_MS * DAY_MS
    return Period(start, start + DAY_MS)


def snapshot_name(name: str, day: Period) -> str:
    return f"{SNAPSHOTS}/{name}/day={hour_path(day.start)[:10]}"


def snapshot_days(root: str, name: str) -> list[Period]:
    """Those that have a snapshot, in order."""
    paths = sorted(listed(root, f"{MANIFESTS}/{SNAPSHOTS}/{name}"))
    hours = [f"{found[1]}/00" for path in paths if (found := _MANIFEST.fullmatch(path.rpartition("/")[2]))]
    return [day_of(hour_start(hour)) for hour in hours if is_hour(hour)]


def read_snapshot(root: str, name: str, day: Period) -> Manifest | None:
    return read_manifest(root, snapshot_name(name, day))


def unread_hours(root: str, name: str, day: Period) -> Mapping[str, int | None]:
    """The hours before a snapshot's end that could not be read in full, with the `sealed_at` that each had then."""
    found = read_snapshot(root, name, day)
    return found.unread if found else {}


def made_at(root: str, name: str, day: Period) -> int:
    """Nothing that was compacted after that is in the snapshot; UNIX milliseconds."""
    found = read_snapshot(root, name, day)
    return (found.sealed_at or 0) if found else 0


def last_before(root: str, name: str, instant: int) -> Period | None:
    """The last day that had ended by then and has a snapshot."""
    return max((day for day in snapshot_days(root, name) if day.end <= instant), key=attrgetter("end"), default=None)


def prune(root: str, name: str, now: int, *, monthly: bool) -> None:
    """Remove the snapshots of more than `SNAPSHOT_DAYS` ago, if `monthly` all but the first of each month.

    Their manifests go last: a run that was stopped in between is finished by the next one.
    """
    old = [snapshot_name(name, day) for day in snapshot_days(root, name) if day.end < now - SNAPSHOT_DAYS * DAY_MS]
    over = [each for each in old if not (monthly and each.endswith("-01"))]
    remove(root, [file.path for each in read_manifests(root, over) for file in each.files])
    remove(root, map(manifest_path, over))
