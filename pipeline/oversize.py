"""Statements that were too large for a message: ingest puts each into a bucket, under the `location` it then names."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from pyarrow import fs

from pipeline.lake import filesystem


def fetched(
    root: str | None, statements: Iterable[bytes | None], locations: Iterable[str | None]
) -> Iterator[bytes | None]:
    """The statements, those that are None read from below `root`, one at a time; None stays where nothing is."""
    for statement, location in zip(statements, locations, strict=True):
        yield _read(root, location) if root and location and statement is None else statement


def _read(root: str, location: str) -> bytes | None:
    files, folder = _opened(root)
    try:
        with files.open_input_stream(f"{folder}/{location}") as stream:
            content: bytes = stream.read()
    except FileNotFoundError:
        return None
    return content


@lru_cache
def _opened(root: str) -> tuple[fs.FileSystem, str]:
    return filesystem(root.rstrip("/"))
