"""Which of the days that were judged the daily run has to judge again.

    a file or manifest of its differences, claims or report is gone or damaged, or of before its end ──┐
    lines that have come since concern it ─────────────────────────────────────────────────────────────┼─▶ judged again
    other hours can't be judged than its page says, or for other reasons ──────────────────────────────┘

Of all other days it is noted that they take account of what has come.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

from pipeline.compaction.compact import new_files
from pipeline.compaction.completeness import incomplete_hours
from pipeline.in_force.states import MARGIN_MS
from pipeline.lake.commits import CommitConflict, LakeView, Manifest, commit, new_commit, read_manifest
from pipeline.lake.event_lake import EventLake
from pipeline.lake.raw import arrival_hour
from pipeline.lake.snapshots import day_of
from pipeline.period import DAY_MS, HOUR_MS, LATEST_MS, Period, arrivals, hour_path
from pipeline.reconciliation.judged_days import JudgedDay, JudgedDays, judged_days
from pipeline.reconciliation.late_lines import concerned_days
from pipeline.report.report_files import report_name


def changed_days(lake: EventLake, yesterday: Period, now: int, due: Collection[Period] = ()) -> list[Period]:
    """Return those of yesterday and the 15 days before it that were judged and have to be judged again.

    It also writes: of each other day that was judged and is not `due`, it commits that the day takes account of all that
    came until `now`.
    """
    days = [day_of(start) for start in range(yesterday.start - LATEST_MS, yesterday.end, DAY_MS)]
    judged, changed = judged_days(lake.root, days)
    looked_at = Period(yesterday.start - LATEST_MS - HOUR_MS, now)
    arrived = lake.view.manifests(looked_at)
    uncompacted = {arrival_hour(path) for path in new_files(lake, looked_at)}
    for at, some in _by_time(judged).items():
        unseen = _unseen(arrived, some, at, now)
        concerned = concerned_days(lake, some, unseen, yesterday, now)
        hours = uncompacted | {hour.hour for hour in unseen}
        found = [
            day
            for day, judged_day in some.items()
            if day.start in concerned or _problems_differ(lake.view, day, judged_day, hours, now)
        ]
        others = {day: each.differences for day, each in some.items() if day not in {*found, *due}}
        note_seen(lake.root, others, arrived, now)
        changed += found
    return sorted(changed, key=attrgetter("start"))


def _by_time(judged: JudgedDays) -> Mapping[int, JudgedDays]:
    """By when it was last known what they take account of."""
    by_time: dict[int, dict[Period, JudgedDay]] = defaultdict(dict)
    for day, judged_day in judged.items():
        by_time[judged_day.differences.sealed_at or 0][day] = judged_day
    return by_time


def _unseen(arrived: Sequence[Manifest], judged: JudgedDays, at: int, now: int) -> list[Manifest]:
    """The hours that changed since these days were judged, all at the moment `at`.

    Late rules may be in an hour that no day's `seen` has: it counts if it may have been committed after `at`.
    """

    def is_unseen(hour: Manifest) -> bool:
        if hour.sealed_at is None:
            return True
        seen = [
            judged_day.differences.seen.get(hour.hour)
            for day, judged_day in judged.items()
            if arrivals(day, now).has_hour(hour.hour)
        ]
        return any(each != hour.sealed_at for each in seen) if seen else hour.sealed_at > at - MARGIN_MS

    return list(filter(is_unseen, arrived))


def _problems_differ(view: LakeView, day: Period, judged_day: JudgedDay, changed: Collection[str], now: int) -> bool:
    """Whether the hours that can't be judged, or the reasons, differ from those on the day's page.

    This is looked up only if the page names any, or if an hour up to the first after the day has `changed`: an earlier
    hour may hold rules that were in force.
    """
    last = hour_path(day.end)
    if not judged_day.problems and all(hour > last for hour in changed):
        return False
    return judged_day.problems != dict(incomplete_hours(view, day, now))


def note_seen(root: str, judged: Mapping[Period, Manifest], arrived: Sequence[Manifest], now: int) -> None:
    """Record that these days take account of all hours `arrived`. The report's `sealed_at`, when it was judged, stays.

    `judged` are the manifests of their differences. A day whose differences or page another job has replaced meanwhile is
    left out.
    """
    hours = {hour.hour: hour.sealed_at for hour in arrived}
    for day, differences in judged.items():
        page = read_manifest(root, report_name(day))
        if page and page.sealed_at is not None:
            with suppress(CommitConflict):
                _replace(root, differences, replace(differences, sealed_at=now, seen=hours))
                _replace(root, page, replace(page, seen=hours))


def _replace(root: str, known: Manifest, new: Manifest) -> None:
    """Raises `CommitConflict` if another commit has come first."""
    commit(root, replace(new, commit=new_commit()), known.commit)
