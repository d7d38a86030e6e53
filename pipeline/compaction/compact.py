"""`compact`: turn the stream's many small files into Parquet, one folder for each kind and hour.

Each of the stream's files is read once, when no manifest names it yet: what it holds is added to its hour by a commit.
So a late file costs no more than itself, and running twice changes nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, LongType, StructField
from pyspark.storagelevel import StorageLevel

from pipeline.columns import COLUMNS, NOTIFICATION_KEY, UNREADABLE, VERSION, EventKind
from pipeline.compaction.completeness import is_over
from pipeline.compaction.merge import merge_small_files
from pipeline.lake.commits import CommitConflict, Kinds, Manifest, commit_or_discard, merged, new_commit
from pipeline.lake.event_lake import HOME, EventLake, paths_frame
from pipeline.lake.parquet import DataFile
from pipeline.lake.raw import LINES, arrived_files, line_batches
from pipeline.lake.schemas import RULE, SCHEMAS, in_spark
from pipeline.period import CLOCK_SKEW_MS, FIREHOSE_BUFFER_MS, HOUR_MS, Period

MAX_ROUNDS = 20
"""Attempts at an hour that other commits overtake; then `CommitConflict`."""
MAX_LONG = 1 << 53
"""What is more is no instant, span or count: sums of a few still fit into 64 bits."""
MAX_AHEAD_MS = FIREHOSE_BUFFER_MS + CLOCK_SKEW_MS
"""A line dated later than that after the end of its hour of arrival is of a clock that is ahead.

Until then Firehose adds to an hour's last file.
"""
_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"
"""For Java, whose `$` would let a line break follow."""
_DATES = ("at", "observed_at")
"""Fields that must not be dated ahead: no job would read the day that they name."""
_RULES = f"array<struct<{', '.join(f'{name}: string' for name in RULE.names)}>>"


@dataclass(frozen=True)
class Compacted:
    """Lines by kind, of what was new; `unreadable` ones are kept apart, as text.

    `damaged` are the stream's files that can't be read to their end, or are empty: none of their lines is taken, and no
    manifest names them.
    """

    lines: Mapping[str, int]
    damaged: Sequence[str] = ()

    @property
    def unreadable(self) -> int:
        return self.lines.get(UNREADABLE, 0)


def compact(lake: EventLake, arrived: Period, now: int, counted: Mapping[str, int] | None = None) -> Compacted:
    """Commit what has arrived in these hours, and seal those that are over at `now` (UNIX milliseconds).

    `counted` says how many records must at least be there, by hour. Where another commit comes first, the hour is begun
    anew. Hours that have got many small files by now get fewer. Raises `CommitConflict` after `MAX_ROUNDS`.
    """
    counted = counted or {}
    total: Counter[str] = Counter()
    for rounds_left in reversed(range(MAX_ROUNDS)):
        lake.view.refresh()
        known = {each.hour: each for each in lake.view.manifests(arrived)}
        (added, damaged), conflict = convert_files(lake, list(new_files(lake, arrived))), False
        for hour in sorted({*known, *added, *counted}):
            new = replace(added.get(hour, Manifest(hour, "")), counted=counted.get(hour))
            try:
                _commit(lake.root, known.get(hour), new, now)
            except CommitConflict:
                if not rounds_left:
                    raise
                conflict = True
            else:
                total.update({kind: sum(each.lines for each in files) for kind, files in new.kinds.items()})
        if not conflict:
            break
    lake.view.refresh()
    merge_small_files(lake, arrived)
    return Compacted(total, damaged)


def new_files(lake: EventLake, arrived: Period) -> Iterable[str]:
    """The paths of the stream's files that no manifest names."""
    known = {each.path for found in lake.view.manifests(arrived) for each in found.raw}
    return (path for paths in arrived_files(lake.root, arrived).values() for path in paths if path not in known)


def convert_files(lake: EventLake, paths: list[str]) -> tuple[dict[str, Manifest], list[str]]:
    """What the stream's files hold, written for each hour, and committed nowhere; and those that are damaged."""
    if not paths:
        return {}, []
    raw = paths_frame(lake.spark, [lake.path(path) for path in paths])
    read = raw.mapInArrow(partial(line_batches, root=lake.root), in_spark(LINES))
    lines = with_kind(read).persist(StorageLevel.DISK_ONLY)
    try:
        about = lines.select("kind", HOME, "path", "lines", "bytes", "digest").distinct().collect()
        kinds = {row["kind"] for row in about if row["kind"]}
        written = {kind: lake.write_files(kind, rows_of(lines, kind)) for kind in sorted(kinds)}
    finally:
        lines.unpersist()
    files: dict[str, list[DataFile]] = defaultdict(list)
    for kind, hour, *file in about:
        if kind is None and file[-1]:
            files[hour].append(DataFile(*file))
    # Of an empty file, which Spark does not show to the readers, there is no row at all.
    damaged = set(paths) - {file.path for some in files.values() for file in some}
    return {hour: _checked(_added(hour, files[hour], written)) for hour in files}, sorted(damaged)


def _added(hour: str, raw: list[DataFile], written: Mapping[str, Kinds]) -> Manifest:
    kinds = {kind: by_hour[hour] for kind, by_hour in written.items() if hour in by_hour}
    return Manifest(hour, "", raw=tuple(sorted(raw, key=lambda file: file.path)), kinds=kinds)


def _checked(added: Manifest) -> Manifest:
    """Every line has to be in exactly one kind."""
    if (read := sum(file.lines for file in added.raw)) != added.lines:
        raise RuntimeError(f"{added.hour}: {read} lines were read, and {added.lines} written")
    return added


def _commit(root: str, known: Manifest | None, added: Manifest, now: int) -> None:
    """Add to an hour what is new; nothing is committed if nothing is, or if nothing is known of the hour."""
    known = known or Manifest(added.hour, "")
    counted = max((count for count in (known.counted, added.counted) if count is not None), default=None)
    new = replace(known, counted=counted, raw=(*known.raw, *added.raw), kinds=merged(known.kinds, added.kinds))
    if new.raw or counted is not None:
        new = replace(new, sealed_at=_sealed_at(known, new, now))
    if new != known:
        commit_or_discard(root, replace(new, commit=new_commit()), known.commit or None, added.kinds)


def _sealed_at(known: Manifest, new: Manifest, now: int) -> int | None:
    """Anew with each late file, and with a count that shows what was found complete to be a part."""
    recounted = new.counted != known.counted and new.arrived < (new.counted or 0)
    is_as_before = known.sealed_at is not None and new.raw == known.raw and not recounted
    return known.sealed_at if is_as_before else sealed_anew(known, now)


def sealed_anew(known: Manifest, now: int) -> int | None:
    """When an hour that has changed is sealed, if it is over: later than before, or who judged by it would see no change.

    `now` may be earlier than it was, as of a batch of `watch` that is done again.
    """
    if known.sealed_at is not None:
        return max(now, known.sealed_at + 1)
    return now if is_over(known.hour, now) else None


def rows_of(lines: DataFrame, kind: str) -> DataFrame:
    return unreadable(lines) if kind == UNREADABLE else parsed(lines, EventKind(kind))


def with_kind(lines: DataFrame) -> DataFrame:
    """`kind`, an event's word or `unreadable`, with the parsed `line`, or its text (`value`) if it is unreadable.

    Rows about files, which have no `value`, have no kind.
    """
    read = lines.withColumn("line", F.try_parse_json("value"))
    kind = F.coalesce(*(F.when(_is(kind), F.lit(str(kind))) for kind in EventKind), F.lit(UNREADABLE))
    apart = read.withColumn("kind", F.when(F.col("value").isNotNull(), kind))
    return apart.withColumn("value", F.when(F.col("kind") == UNREADABLE, F.col("value")))


def parsed(lines: DataFrame, kind: EventKind) -> DataFrame:
    """The lines of one kind, in its schema."""
    contract = [_value(field).alias(field.name) for field in SCHEMAS[kind].fields]
    return lines.where(F.col("kind") == kind).select(HOME, *contract)


def unreadable(lines: DataFrame) -> DataFrame:
    return lines.where(F.col("kind") == UNREADABLE).select(HOME, "value")


def _is(kind: EventKind) -> Column:
    """Whether a line says so, in the version known here, and has all that the kind's schema needs, as jobs can take it."""
    says_so = (_get("event", "string") == kind) & (_get("version", "int") == VERSION)
    words = (column.words for column in COLUMNS[kind])
    arrived = F.unix_millis(F.to_timestamp(HOME, "yyyy-MM-dd/HH")) + HOUR_MS
    dated = [_get(name, "long") <= arrived + MAX_AHEAD_MS for name in _DATES if name in SCHEMAS[kind].names]
    return reduce(and_, [*map(_is_good, SCHEMAS[kind].fields, words), *dated], says_so)


def _is_good(field: StructField, words: Sequence[str]) -> Column:
    """Whether a line's value is one that no job fails at. Where it may be missing, null is good."""
    value = _value(field)
    if not field.nullable:
        return value.isNotNull() & _in_limits(field, words, value)
    return F.when(value.isNull(), _get(field.name, "string").isNull()).otherwise(_in_limits(field, words, value))


def _in_limits(field: StructField, words: Sequence[str], value: Column) -> Column:
    if words:
        return value.isin(*words)
    if isinstance(field.dataType, ArrayType):
        return F.forall(value, lambda rule: rule["key"].isNotNull())
    if field.name in NOTIFICATION_KEY:
        return value.rlike(_UUID)
    if isinstance(field.dataType, LongType):
        return value.between(0, MAX_LONG)
    return F.lit(True)


def _value(field: StructField) -> Column:
    """A field as the lake keeps it; in JSON, bytes are hex, and an envelope's are base64."""
    match field.dataType:
        case BinaryType() if field.name == "raw":
            return F.try_to_binary(F.translate(_get(field.name, "string"), "-_", "+/"), F.lit("base64"))
        case BinaryType():
            return _unhexed(_get(field.name, "string"))
        case ArrayType():
            return F.transform(_get(field.name, _RULES), _rule)
        case kind:
            return _get(field.name, kind.simpleString())


def _get(name: str, kind: str) -> Column:
    return F.try_variant_get(F.col("line"), f"$.{name}", kind)


def _rule(rule: Column) -> Column:
    return F.struct(*(_unhexed(rule[name]).alias(name) for name in RULE.names))


def _unhexed(text: Column) -> Column:
    """Null of what is no hex: Spark would put a digit before an odd number of them."""
    return F.when(F.length(text) % 2 == 0, F.unhex(text))
