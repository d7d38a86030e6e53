"""List what each thing that is deployed is made of, as CycloneDX, in .build/sbom: from the locks, with their hashes.

The base image has packages of its own, which only the image itself can list: here it is one component.
"""

import json
import subprocess
import sys
from pathlib import Path

from base_image import Image
from infra.image import DOCKERFILE

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / ".build" / "sbom"
LOCKS = {
    "image": "functions/ingest/requirements.txt",
    "layers": "layers/vendor/requirements.txt",
    "jobs": "pipeline/requirements.txt",
}


def main() -> None:
    BUILT.mkdir(parents=True, exist_ok=True)
    for name in LOCKS:
        print(write(name, BUILT))


def write(name: str, folder: Path) -> Path:
    """Of one of `LOCKS`."""
    target = folder / f"{name}.cdx.json"
    words = ("--pyproject", "pyproject.toml", "--output-reproducible", "--of", "JSON", "--output-file", str(target))
    # It warns that a lock does not say what depends on what.
    python = (sys.executable, "-W", "ignore::UserWarning")
    subprocess.run([*python, "-m", "cyclonedx_py", "requirements", *words, LOCKS[name]], cwd=ROOT, check=True)
    if name == "image":
        _add_base(target, Image.read((ROOT / DOCKERFILE).read_text()))
    return target


def _add_base(target: Path, base: Image) -> None:
    listed = json.loads(target.read_text())
    component = {"type": "container", "bom-ref": str(base), "name": f"{base.registry}/{base.repository}"}
    listed["components"].append({**component, "version": base.digest or base.tag})
    target.write_text(json.dumps(listed, indent=2) + "\n")


if __name__ == "__main__":
    main()
