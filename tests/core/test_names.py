"""One name, one class: a reader who meets a name knows which it is."""

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("layers/core/clarion", "functions", "infra", "pipeline", "console", "local")


def classes() -> Mapping[str, set[str]]:
    """The modules that define a class of each name at their top."""
    found: dict[str, set[str]] = defaultdict(set)
    for place in PLACES:
        for path in (ROOT / place).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].add(str(path.relative_to(ROOT)))
    return found


def test_no_two_classes_have_one_name() -> None:
    shared = {name: sorted(modules) for name, modules in classes().items() if len(modules) > 1}
    assert not shared
