"""Which of the days that were judged the daily run has to judge again.

    its differences, claims or page are gone, damaged, or of before it was over ──┐
    lines that have come since concern it ────────────────────────────────────────┼─▶ judged again
    other hours can't be judged than its page says, or for other reasons ─────────┘

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
    """Yesterday and the 15 days before it, if they were judged and have to be judged again.

    Of the others, except those that are `due`, it is recorded that they take account of all that came until `now`.
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
            for day, known in some.items()
            if day.start in concerned or _has_other_problems(lake.view, day, known, hours, now)
        ]
        others = {day: known.differences for day, known in some.items() if day not in {*found, *due}}
        note_seen(lake.root, others, arrived, now)
        changed += found
    return sorted(changed, key=attrgetter("start"))


def _by_time(judged: JudgedDays) -> Mapping[int, JudgedDays]:
    """By when it was last known what they take account of."""
    by_time: dict[int, dict[Period, JudgedDay]] = defaultdict(dict)
    for day, known in judged.items():
        by_time[known.differences.sealed_at or 0][day] = known
    return by_time


def _unseen(arrived: Sequence[Manifest], judged: JudgedDays, at: int, now: int) -> list[Manifest]:
    """The hours that have changed since days were judged, all `at` the same moment.

    Rules of before these days may come late under an hour that is in none of their `seen`. It counts as unseen if it may
    have been committed after `at`.
    """

    def is_unseen(hour: Manifest) -> bool:
        if hour.sealed_at is None:
            return True
        seen = [
            known.differences.seen.get(hour.hour)
            for day, known in judged.items()
            if arrivals(day, now).has_hour(hour.hour)
        ]
        return any(each != hour.sealed_at for each in seen) if seen else hour.sealed_at > at - MARGIN_MS

    return list(filter(is_unseen, arrived))


def _has_other_problems(view: LakeView, day: Period, known: JudgedDay, changed: Collection[str], now: int) -> bool:
    """Whether other hours can't be judged than the day's page says, or for other reasons.

    There may be some if its page names any, whatever has been put right or removed since, or if an hour has `changed`
    that is one of its own or earlier: of those before, what may say what was in force counts.
    """
    last = hour_path(day.end)
    if not known.problems and all(hour > last for hour in changed):
        return False
    return known.problems != dict(incomplete_hours(view, day, now))


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
