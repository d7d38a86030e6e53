"""What the components may know of one another, and of the networks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPONENTS = sorted(
    str(path.relative_to(ROOT))
    for path in (*(ROOT / "functions").iterdir(), ROOT / "pipeline", ROOT / "console", ROOT / "infra")
    if (path / "__init__.py").exists()
)
NETWORKS = ("clarion.networks.statements", "clarion.networks.xmtp")
OWN = (
    "functions/api/networks/statements/",
    "functions/api/networks/xmtp/",
    "functions/ingest/sources/statements/",
    "functions/ingest/sources/xmtp/",
    "functions/xmtp/",
    # It makes up traffic.
    "pipeline/generator/",
    "console/send_test.py",
)
"""What of the components is made for one network."""
MODULES = sorted(
    path
    for folder in ("bench", "console", "functions", "infra", "layers", "pipeline", "tools")
    for path in (ROOT / folder).rglob("*.py")
)
OF_XMTP = (
    "bench/own_messages.py",
    "functions/api/networks/xmtp/",
    "functions/ingest/sources/xmtp/",
    "functions/xmtp/",
    "layers/core/clarion/networks/xmtp/",
    "pipeline/generator/xmtp.py",
)
APART = {f"local/{name}.py" for name in ("cast", "outside", "pipeline_demo", "run", "story", "system")}
"""Of `local/`, which plays a network's parts: what starts XMTP's, has scenes of them or leaves them out."""
OF_XMTP_LOCALLY = ("local/xmtp_", "local/notifications.py")
_, AGAIN, ONCE = re.split("^### ", (ROOT / "docs/decisions/0011-one-kernel.md").read_text(), flags=re.MULTILINE)
"""What of the decision says what each further network changes, and what the second one changed once."""


def of_a_network(module: str) -> bool:
    return f"{module}.".startswith(tuple(f"{network}." for network in NETWORKS))


def imported(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{name.name}" for name in names)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_imports_nothing_of_one_network_but_where_it_is_made_for_it(component: str) -> None:
    sources = {str(path.relative_to(ROOT)): path for path in (ROOT / component).rglob("*.py")}
    assert sources
    knowing = {
        name for name, path in sources.items() if not name.startswith(OWN) and any(map(of_a_network, imported(path)))
    }
    assert knowing == set()


@pytest.mark.parametrize("exception", OWN)
def test_each_exception_is_one(exception: str) -> None:
    path = ROOT / exception
    modules = [module for source in ([path] if path.is_file() else path.rglob("*.py")) for module in imported(source)]
    assert any(map(of_a_network, modules))


def linked(section: str) -> set[str]:
    return set(re.findall(r"\]\(\.\./\.\./([^)]+)\)", section))


def test_what_is_changed_for_each_network_is_what_names_the_second_beside_its_own() -> None:
    files = {str(path.relative_to(ROOT)): path.read_text() for path in (*MODULES, ROOT / "pyproject.toml")}
    naming = {name for name, text in files.items() if "xmtp" in text.lower()}
    assert {name for name in naming if not name.startswith(OF_XMTP)} == linked(AGAIN)
    assert all(any(name.startswith(own) for name in naming) for own in OF_XMTP)


def test_what_names_the_second_network_in_the_local_system_is_what_plays_its_parts() -> None:
    naming = {f"local/{path.name}" for path in (ROOT / "local").glob("*.py") if "xmtp" in path.read_text().lower()}
    assert {name for name in naming if not name.startswith(OF_XMTP_LOCALLY)} == APART
    assert "`local/` is apart" in AGAIN


def test_how_many_files_change_for_each_network_is_counted() -> None:
    assert len(linked(AGAIN)) == 7
    assert "changes seven files" in AGAIN


def test_what_the_second_network_changed_once_is_there_and_counted() -> None:
    changed = linked(ONCE)
    assert {name for name in changed if not (ROOT / name).is_file() or name.startswith(OF_XMTP)} == set()
    assert f"{len(changed)} modules" in ONCE
