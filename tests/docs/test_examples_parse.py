"""The examples in languages that nothing here compiles are at least well-formed."""

from pathlib import Path

import pytest
import tree_sitter_kotlin
import tree_sitter_swift
from tree_sitter import Language, Parser

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
PARSERS = {
    ".kt": Parser(Language(tree_sitter_kotlin.language())),
    ".swift": Parser(Language(tree_sitter_swift.language())),
}
FOREIGN = sorted(path for path in EXAMPLES.iterdir() if path.suffix in PARSERS)


def well_formed(suffix: str, source: bytes) -> bool:
    return not PARSERS[suffix].parse(source).root_node.has_error


@pytest.mark.parametrize("example", FOREIGN, ids=lambda path: path.name)
def test_an_example_is_well_formed(example: Path) -> None:
    assert well_formed(example.suffix, example.read_bytes())


@pytest.mark.parametrize("suffix", PARSERS)
def test_each_language_has_an_example_which_a_lost_brace_would_spoil(suffix: str) -> None:
    [first, *_] = [path.read_bytes() for path in FOREIGN if path.suffix == suffix]
    start, _, end = first.rpartition(b"}")
    assert not well_formed(suffix, start + end)
