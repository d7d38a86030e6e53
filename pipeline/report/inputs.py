"""What a report was made of and by: the hours of the lake, and the limits that were in force."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from clarion.limiter import Limit
from pipeline.compaction.completeness import incomplete_hours
from pipeline.in_force.limits import LimitHistory, LimitSpan
from pipeline.lake.commits import LakeView, Manifest
from pipeline.period import DAY_MS, HOUR_MS, Period, arrivals

HOURS = pa.schema([("hour", pa.string()), ("lines", pa.int64()), ("sealed_at", pa.int64()), ("problem", pa.string())])
LIMITS = pa.schema([("network", pa.string()), ("since", pa.int64()), ("pair", pa.string()), ("cap", pa.string())])


def hours(view: LakeView, period: Period, now: int, *, provisional: bool, judged: Manifest | None = None) -> pa.Table:
    """Each hour in which something of the period arrives, in `HOURS`. Without a `problem` it can be judged.

    Of `judged`, the period's differences, each hour has to be as it was when these were found.
    """
    arrival = arrivals(period, period.end + HOUR_MS)
    known = {manifest.hour: manifest for manifest in view.manifests(arrival)}
    problems = dict(incomplete_hours(view, period, now, provisional=provisional))
    if judged:
        changed = {hour for hour, found in known.items() if found.sealed_at != judged.seen.get(hour)}
        problems = dict.fromkeys(changed, "it has changed since it was compared") | problems
    rows = [_hour(hour, known.get(hour), problems.get(hour)) for hour in sorted(known | problems)]
    return pa.Table.from_pylist(rows, HOURS)


def _hour(hour: str, manifest: Manifest | None, problem: str | None) -> dict[str, object]:
    lines, sealed_at = (manifest.lines, manifest.sealed_at) if manifest else (None, None)
    return {"hour": hour, "lines": lines, "sealed_at": sealed_at, "problem": problem}


def newest(view: LakeView, now: int) -> str | None:
    """The last hour that has a commit, of the two days before `now`."""
    return max((found.hour for found in view.manifests(Period(now - 2 * DAY_MS, now))), default=None)


def limits(history: LimitHistory, period: Period) -> pa.Table:
    """The limits that were in force in the period, in words and in `LIMITS`: for a pair, and for a subscription."""
    rows = [row for network, spans in history.spans.items() for row in _limits(network, spans, period)]
    return pa.Table.from_pylist(rows, LIMITS)


def _limits(network: str, spans: Sequence[LimitSpan], period: Period) -> Iterator[dict[str, object]]:
    for span in spans:
        if span.since < period.end and period.start < span.until:
            pair = _words(span.limit) if span.limit else "none"
            yield {"network": network, "since": span.since, "pair": pair, "cap": _words(span.cap)}


def _words(limit: Limit) -> str:
    cooldown = f", then none for {limit.cooldown / 1_000:g} s" if limit.cooldown else ""
    return f"{limit.count:,} in {limit.window / 1_000:g} s{cooldown}"
