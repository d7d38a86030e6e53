"""Tables of Markdown, written into pages that keep their other lines."""

from collections.abc import Iterable
from itertools import dropwhile


def table_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def inserted(page: str, table: list[str]) -> str:
    """The page with this table in place of the one with its first line."""
    before, head, rest = page.partition(f"{table[0]}\n")
    if not head:
        raise ValueError(f"no table begins with {table[0]}")
    lines = rest.splitlines(keepends=True)
    after = dropwhile(lambda line: line.startswith("|"), lines)
    return "".join([before, *(f"{line}\n" for line in table), *after])
