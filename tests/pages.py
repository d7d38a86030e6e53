"""The pages that give an operator commands."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
ORDERED = ("docs/deploying.md", "docs/recovering.md")
PAGES = ("README.md", "docs/operations.md", "docs/walletconnect.md", *ORDERED)


def text(page: str) -> str:
    return (ROOT / page).read_text()


def scripts(markdown: str) -> Iterator[str]:
    """The blocks that a shell can run."""
    for block in re.findall(r"^ *```bash\n(.*?)^ *```", markdown, re.MULTILINE | re.DOTALL):
        yield dedent(block)


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next."""
    parts = re.split(r"^#+ (.*)\n", text(page), flags=re.MULTILINE)
    return parts[parts.index(heading) + 1]
