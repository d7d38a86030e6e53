"""One erasure from beginning to end: who the client is, what holds it, and the journal of what is under way."""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import UUID

from clarion.events import NotificationDecided, SubscriptionChanged
from clarion.storage import DELIVERIES_PREFIX
from pipeline.columns import LINKS
from pipeline.commits import MANIFESTS, Manifest, hour_of, read_manifests
from pipeline.erase.rewrite import RAW, Rewriter
from pipeline.erase.traces import Traces
from pipeline.files import joined, listed, read_text, write_text
from pipeline.lookup import READERS, Lookup, is_shown
from pipeline.period import EVER

JOURNALS = "erasures"
DELIVERIES, ERRORS = DELIVERIES_PREFIX.rstrip("/"), "errors"
NAMELESS = {RAW, MANIFESTS, JOURNALS, LINKS}
"""Folders in which nobody is named, or that are gone through otherwise."""
COMMITTED = "/commit="
"""Part of the path of a data file that counts only if a manifest names it."""

type Report = Callable[[str], None]


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
    """How many lines were removed of each kind, or would be, and of how many subscriptions."""

    removed: Mapping[str, int]
    subscriptions: int


def erase(root: str, client: bytes, *, dry_run: bool, report: Report) -> Erased:
    """Whatever the lake has of a client at this time; what arrives later, another run removes."""
    paths = [path for path in listed(root, "") if is_shown(path)]
    begun = {path: journal for path, journal in _journals(root, paths) if journal.client == client}
    traces = Traces(client).with_subscriptions(each for journal in begun.values() for each in journal.subscriptions)
    traces = traces.with_subscriptions(_subscriptions(Rewriter(root, traces, dry_run), paths))
    rewriter = Rewriter(root, traces, dry_run)
    commits = _commits(root, paths)
    names = frozenset(_holding(rewriter, commits)).union(*(journal.names for journal in begun.values()))
    journal = f"{JOURNALS}/{secrets.token_hex(8)}.json"
    if names and not dry_run:
        write_text(joined(root, journal), ErasureJournal(client, traces.subscriptions, names).to_json())
    removed: Counter[str] = Counter()
    for done, name in enumerate(sorted(names), 1):
        removed += rewriter.renew(name)
        report(f"{done:>6,} of {len(names):,}: {name}")
    removed += _beside(rewriter, set(paths) - {each.path for made in commits for each in made.files})
    rewriter.delete([*begun, journal])
    return Erased(dict(sorted(removed.items())), len(traces.subscriptions))


def _journals(root: str, paths: Iterable[str]) -> Iterator[tuple[str, ErasureJournal]]:
    """Of erasures that have not come to their end."""
    for path in paths:
        if path.startswith(f"{JOURNALS}/") and (text := read_text(joined(root, path))):
            yield path, ErasureJournal.from_json(text)


def _subscriptions(rewriter: Rewriter, paths: Iterable[str]) -> set[UUID]:
    """All that were ever the client's, as far as the lake knows."""
    tables = [path for path in paths if path.endswith(".parquet")]
    with ThreadPoolExecutor(READERS) as readers:
        found = set[UUID]().union(*readers.map(rewriter.subscriptions, tables))
    lookup, client = Lookup(rewriter.root), rewriter.traces.client
    changed = lookup.pending_events(SubscriptionChanged, {client}, EVER)
    notified = lookup.pending_events(NotificationDecided, {client}, EVER)
    return found.union(one.subscription_id for kind in (changed, notified) for one in kind if one.client_id == client)


def _commits(root: str, paths: Iterable[str]) -> list[Manifest]:
    """Of hours, and of what is of no hour."""
    return read_manifests(root, [hour_of(path) for path in paths if path.startswith(f"{MANIFESTS}/")])


def _holding(rewriter: Rewriter, commits: Sequence[Manifest]) -> Iterator[str]:
    """The hours and names whose commits have something of the client, or whose raw files that no commit has."""
    with ThreadPoolExecutor(READERS) as readers:
        held = readers.map(lambda made: any(rewriter.holds(each.path) for each in made.files), commits)
        yield from (made.hour for made, holds in zip(commits, held, strict=True) if holds)
    for hour, pending in Lookup(rewriter.root).pending(EVER).items():
        if any(rewriter.has_lines(path) for path in pending):
            yield hour


def _beside(rewriter: Rewriter, paths: Iterable[str]) -> Counter[str]:
    """What no manifest names: the index of deliveries, failed records, reports, and files that a commit has left."""
    folders = ((path.partition("/")[0], path) for path in paths)
    others = [(top, path) for top, path in folders if top not in NAMELESS]
    with ThreadPoolExecutor(READERS) as readers:
        counts = readers.map(lambda other: _remove(rewriter, *other), others)
        return +sum((Counter({top: count}) for (top, _), count in zip(others, counts, strict=True)), Counter[str]())


def _remove(rewriter: Rewriter, top: str, path: str) -> int:
    if path.endswith(".parquet"):
        return rewriter.drop(path) if COMMITTED in path else rewriter.replace_table(path)
    without = {DELIVERIES: rewriter.traces.without_records, ERRORS: rewriter.traces.without_failed}
    return rewriter.replace_content(path, without.get(top, rewriter.traces.without_texts))
