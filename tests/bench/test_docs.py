"""What docs/bench.md says of the commands, against the Makefile and what writes bench/measured.json."""

import json
import re

from bench.all import PAGE, ROOT
from bench.figures import MEASURED

COMMANDS = PAGE.read_text().partition("## Which command measures what")[2].partition("\n## ")[0]
BESIDE = {"ledger", "simulate", "fuzz-simplex", "soak-ingest"}
"""Targets that measure and aren't named after it."""


def test_each_command_that_measures_is_named_and_is_there() -> None:
    targets = re.findall(r"^(bench[a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"^\| .* \| `make ([a-z-]+)` \|", COMMANDS, re.MULTILINE)
    assert sorted(named) == sorted({*targets, *BESIDE})


def test_each_figure_that_a_command_writes_stands_with_that_command() -> None:
    for name, figure in json.loads(MEASURED.read_text()).items():
        command = figure["how"].partition(",")[0]
        if command.startswith("make "):
            (row,) = [line for line in COMMANDS.splitlines() if f"| `{command}` |" in line]
            assert f"`{name}`" in row
