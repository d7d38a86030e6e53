"""How the pages are written."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONGEST = 120
ONE = re.compile(r" *(\||\S+$)")
"""A row of a table, or a word that is as long."""
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_line_is_short_unless_it_is_of_a_table_or_of_code(page: Path) -> None:
    lines = FENCED.sub("", page.read_text()).splitlines()
    assert [line for line in lines if len(line) > LONGEST and not ONE.match(line)] == []
