"""Generate the modules and stubs of all .proto files beside them, or in the folder that is given.

They are kept in the repository: images, layers and earlier versions are made from the sources without a build step.
"""

import subprocess
import sys
from pathlib import Path

CORE = Path(__file__).parents[1] / "layers" / "core"


def main(target: Path) -> None:
    sources = sorted(map(str, CORE.rglob("*.proto")))
    out = (f"--python_out={target}", f"--pyi_out={target}")
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={CORE}", *out, *sources], check=True)


if __name__ == "__main__":
    main(Path(*sys.argv[1:]) if sys.argv[1:] else CORE)
