"""Generate the modules and stubs of all .proto files beside them, or in the folder that is given.

They are kept in the repository: images, layers and earlier versions are made from the sources without a build step.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = (ROOT / "layers" / "core", ROOT / "functions")
"""Where packages begin that have some."""


def main(target: Path | None) -> None:
    for place in PLACES:
        sources = sorted(map(str, place.rglob("*.proto")))
        out = (f"--python_out={target or place}", f"--pyi_out={target or place}")
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={place}", *out, *sources], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else None)
