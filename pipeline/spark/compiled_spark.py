"""PySpark's modules, compiled: Spark has each Python process import them from an archive that holds their sources alone.

To compile them anew takes two thirds of what such a process takes to begin. That of a streaming source has ten seconds.

    python -m pipeline.spark.compiled_spark    # on this machine, put what is compiled beside the sources
"""

import shutil
import warnings
from pathlib import Path
from py_compile import PycInvalidationMode
from py_compile import compile as compile_module
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pyspark

ARCHIVE = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"


def add_compiled(archive: Path) -> None:
    """In its place comes another file, since the installer may have linked this one into several environments."""
    with TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(shutil.copy(archive, folder))
        with ZipFile(made, "a") as packed:
            names = set(packed.namelist())
            for name in sorted(each for each in names if each.endswith(".py") and f"{each}c" not in names):
                packed.write(_compiled(packed.extract(name, folder), name), f"{name}c")
        made.replace(archive)


def _compiled(source: str, name: str) -> str:
    """The path of the compiled module, which is taken as it is whatever its source's time."""
    with warnings.catch_warnings(action="ignore"):
        compile_module(source, f"{source}c", name, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    return f"{source}c"


if __name__ == "__main__":
    add_compiled(ARCHIVE)
