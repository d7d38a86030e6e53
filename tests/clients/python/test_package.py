"""The client for Python as it is packed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UV = ROOT / ".tools" / "bin" / "uv"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the built package is installed into, alone."""
    built, target = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("installed")
    own = ("--offline", "--quiet", "--python", sys.executable)
    source = ROOT / "clients" / "python"
    subprocess.run([UV, "build", *own, "--no-build-isolation", "--out-dir", built, source], check=True)
    [wheel] = built.glob("*.whl")
    subprocess.run([UV, "pip", "install", *own, "--no-deps", "--target", target, wheel], check=True)
    return target


def run(installed: Path, program: str) -> str:
    variables = os.environ | {"PYTHONPATH": str(installed)}
    ran = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_the_package_is_imported_from_where_it_was_installed(installed: Path) -> None:
    found = run(installed, "import clarion_client; print(clarion_client.__file__, clarion_client.Client.__name__)")
    assert found == f"{installed / 'clarion_client' / '__init__.py'} Client"


def test_the_package_needs_httpx_alone(installed: Path) -> None:
    needed = run(installed, "from importlib.metadata import requires; print(requires('clarion-client'))")
    assert needed == "['httpx>=0.28', \"cryptography>=47; extra == 'sealed'\"]"


def test_the_package_says_that_it_is_typed(installed: Path) -> None:
    assert (installed / "clarion_client" / "py.typed").exists()


def test_clarion_itself_is_not_needed(installed: Path) -> None:
    program = "import sys, clarion_client; print({'clarion', 'cryptography'} & sys.modules.keys())"
    assert run(installed, program) == "set()"
