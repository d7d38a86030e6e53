"""One erasure from beginning to end: who the client is, what holds it, and the journal of what is under way."""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from clarion.storage import DELIVERIES_PREFIX
from pipeline.columns import LINKS
from pipeline.erase.lease import JOURNALS, ErasureLease
from pipeline.erase.rewrite import Rewriter, is_content
from pipeline.erase.traces import Traces
from pipeline.lake.commits import MANIFESTS, Manifest, name_of, read_manifests
from pipeline.lake.files import CONNECTIONS, is_shown, joined, listed, read_text, write_text
from pipeline.lake.raw import RAW, arrival_hour, is_arrived

DELIVERIES, ERRORS = DELIVERIES_PREFIX.rstrip("/"), "errors"
NAMELESS = {MANIFESTS, JOURNALS, LINKS}
"""Folders in which nobody is named, or that are gone through otherwise."""
COMMITTED = "/commit="
"""Part of the path of a data file that counts only if a manifest names it."""

type OnProgress = Callable[[str], None]


class ErasureJournal(NamedTuple):
    """What an erasure has begun with: the client's subscriptions, and the hours or names that it makes commits of."""

    client: bytes
    subscriptions: frozenset[UUID]
    names: frozenset[str]

    def to_json(self) -> str:
        return json.dumps({
            "client": self.client.hex(), "subscriptions": sorted(map(str, self.subscriptions)), "names": sorted(self.names)
        })  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> "ErasureJournal":
        values: dict[str, Any] = json.loads(text)
        subscriptions = frozenset(map(UUID, values["subscriptions"]))
        return cls(bytes.fromhex(values["client"]), subscriptions, frozenset(values["names"]))


class Erased(NamedTuple):
    """How many lines were removed of each kind, or would be, and of how many subscriptions.

    `left` are the files that could not be looked through, and why; another run goes on with them.
    """

    removed: Mapping[str, int]
    subscriptions: int
    left: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether the lake had nothing of the client, as far as it could be looked through."""
        return not (self.removed or self.subscriptions or self.left)


def erase(root: str, client: bytes, *, dry_run: bool, on_progress: OnProgress) -> Erased:
    """Whatever the lake has of a client at this time; what arrives later, another run removes.

    The stream's files are listed before the manifests are read: so one that is compacted meanwhile counts as not
    compacted, or is met in what it became. Raises `AnotherErasure`, unless it is a dry run.
    """
    with nullcontext() if dry_run else ErasureLease(root) as lease:
        return _erase(root, client, lease, on_progress)


def _erase(root: str, client: bytes, lease: ErasureLease | None, on_progress: OnProgress) -> Erased:
    paths = [path for path in listed(root, "") if is_content(path)]
    begun = {path: journal for path, journal in _journals(root, paths) if journal.client == client}
    traces = Traces(client).with_subscriptions(each for journal in begun.values() for each in journal.subscriptions)
    rewriter = Rewriter(root, traces, lease)
    commits = _commits(root)
    pending = _pending(paths, commits)
    more = _subscriptions(rewriter, {*paths, *_named(commits)}, pending)
    rewriter = replace(rewriter, traces=traces.with_subscriptions(more))
    names = frozenset(_holding(rewriter, commits, pending)).union(*(journal.names for journal in begun.values()))
    journal = f"{JOURNALS}/{secrets.token_hex(8)}.json"
    if names and lease:
        write_text(joined(root, journal), ErasureJournal(client, rewriter.traces.subscriptions, names).to_json())
    removed: Counter[str] = Counter()
    for done, name in enumerate(sorted(names), 1):
        removed += rewriter.renew(name)
        on_progress(f"{done:>6,} of {len(names):,}: {name}")
    removed += _beside(rewriter, set(paths) - _named(_commits(root)))
    rewriter.delete(begun if rewriter.left else [*begun, journal])
    left = tuple(f"{path}: {why}" for path, why in sorted(rewriter.left.items()))
    return Erased(dict(sorted(removed.items())), len(rewriter.traces.subscriptions), left)


def _journals(root: str, paths: Iterable[str]) -> Iterator[tuple[str, ErasureJournal]]:
    """Of erasures that have not come to their end."""
    for path in paths:
        if path.startswith(f"{JOURNALS}/") and path.endswith(".json") and (text := read_text(joined(root, path))):
            yield path, ErasureJournal.from_json(text)


def _subscriptions(rewriter: Rewriter, paths: Iterable[str], pending: Iterable[str]) -> set[UUID]:
    """All that were ever the client's, as far as the lake knows."""
    found = _each(rewriter, set[UUID](), rewriter.subscriptions, filter(_is_table, paths))
    return set[UUID]().union(*found, *_each(rewriter, set[UUID](), rewriter.subscriptions_in_lines, pending))


def _commits(root: str) -> list[Manifest]:
    """Of hours, and of what is of no hour."""
    return read_manifests(root, [name_of(path) for path in listed(root, MANIFESTS) if is_shown(path)])


def _named(commits: Iterable[Manifest]) -> set[str]:
    return {each.path for made in commits for each in made.files}


def _pending(paths: Iterable[str], commits: Iterable[Manifest]) -> list[str]:
    """The stream's files that no commit has."""
    made_of = {each.path for made in commits for each in made.raw}
    return [path for path in paths if is_arrived(path) and path not in made_of]


def _holding(rewriter: Rewriter, commits: Sequence[Manifest], pending: Sequence[str]) -> set[str]:
    """The hours and names whose commits have something of the client, or whose raw files that no commit has.

    What others commit while these are looked through is looked through as well.
    """
    held = _each(rewriter, False, rewriter.has_lines, pending)
    names = {arrival_hour(path) for path, holds in zip(pending, held, strict=True) if holds}
    seen: set[str] = set()
    while new := [made for made in commits if made.commit not in seen]:
        seen.update(made.commit for made in new)
        homes = [(made.hour, each.path) for made in new for each in made.files]
        held = _each(rewriter, False, rewriter.holds, [path for _, path in homes])
        names.update(name for (name, _), holds in zip(homes, held, strict=True) if holds)
        commits = _commits(rewriter.root)
    return names


def _each[T](rewriter: Rewriter, otherwise: T, function: Callable[[str], T], paths: Iterable[str]) -> list[T]:
    """What a function returns of each file."""
    with ThreadPoolExecutor(CONNECTIONS) as readers:
        return list(readers.map(lambda path: rewriter.attempt(path, otherwise, function, path), paths))


def _beside(rewriter: Rewriter, paths: Iterable[str]) -> Counter[str]:
    """What no manifest names: the index of deliveries, failed records, reports, and files that a commit has left."""
    others = [path for path in paths if _top(path) not in NAMELESS and not is_arrived(path)]
    counts = _each(rewriter, 0, partial(_remove, rewriter), others)
    return +sum((Counter({_top(path): count}) for path, count in zip(others, counts, strict=True)), Counter[str]())


def _remove(rewriter: Rewriter, path: str) -> int:
    if _is_table(path):
        return rewriter.drop(path) if COMMITTED in path else rewriter.replace_table(path)
    traces = rewriter.traces
    without = {RAW: traces.without_lines, DELIVERIES: traces.without_records, ERRORS: traces.without_failed}
    return rewriter.replace_content(path, without.get(_top(path), traces.without_texts))


def _is_table(path: str) -> bool:
    return path.endswith(".parquet") and _top(path) not in {RAW, DELIVERIES, ERRORS}


def _top(path: str) -> str:
    return path.partition("/")[0]
