"""Remove files of the lake that have counted for nothing for two days, whether a commit left them out or never came."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from pyarrow import fs

from pipeline.lake.commits import MANIFESTS, home, home_of, name_of, read_manifests, write_links
from pipeline.lake.files import listed, remove
from pipeline.period import DAY_MS

KEPT_MS = 2 * DAY_MS
"""How long a file is kept after no manifest names it: no reader runs longer."""
LOOKBACK_MS = 7 * DAY_MS


def vacuum(root: str, kinds: Iterable[str], now: int) -> list[str]:
    """Remove files below the folders `kinds` that have counted for nothing for `KEPT_MS`; returns their paths.

    It looks where a manifest was written in the week before that: only there can anything have been left out since.
    Athena's lists of these hours are written first: one may still name what is removed, if the commit's writer died
    before it had written it.
    """
    homes = _settled_homes(root, tuple(kinds), now - KEPT_MS)
    tops = sorted({each.partition("/hour=")[0] for each in homes})
    found = chain.from_iterable(listed(root, top).items() for top in tops)
    unreferenced = [path for path, info in found if _is_unreferenced(path, info, homes, now - KEPT_MS)]
    for hour, touched in _kinds_by_name(unreferenced).items():
        write_links(root, hour, touched)
    remove(root, unreferenced)
    return unreferenced


def _kinds_by_name(paths: Iterable[str]) -> Mapping[str, set[str]]:
    """The hours, or other names, of data files, with their kinds."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        kind, name = home_of(path)
        kinds[name].add(kind)
    return kinds


def _settled_homes(root: str, kinds: Sequence[str], until: int) -> dict[str, set[str]]:
    """Folders whose last commit was in the week up to `until`, with the files that count there."""
    found = listed(root, MANIFESTS).items()
    names = [name_of(path) for path, info in found if until - LOOKBACK_MS <= _written_at(info) < until]
    homes: dict[str, set[str]] = {}
    for manifest in read_manifests(root, names):
        named = {each.path for each in manifest.files}
        homes |= {home(kind, manifest.hour): named for kind in kinds}
    return {each: named for each, named in homes.items() if each.partition("/")[0] in kinds}


def _is_unreferenced(path: str, info: fs.FileInfo, homes: Mapping[str, set[str]], until: int) -> bool:
    of = path.partition("/commit=")[0]
    return of in homes and path not in homes[of] and _written_at(info) < until


def _written_at(info: fs.FileInfo) -> int:
    return int(info.mtime_ns // 1_000_000)
