"""What the jobs need on EMR Serverless beyond Spark and Python, kept under `.build/spark`.

The release brings Spark with its own PySpark and Python 3.13. So two archives come along: the locked packages, which
are large and seldom change, and our own code. Spark unpacks both into the working directory of driver and executors,
where `PYTHONPATH` finds them.
"""

import re
import tempfile
import zipfile
from pathlib import Path

from infra import archives
from infra.archives import CORE, ROOT, WHEELS
from infra.config import Platform

BUILT = archives.BUILT / "spark"
PIPELINE = ROOT / "pipeline"
REQUIREMENTS = PIPELINE / "requirements.txt"
ENTRY = PIPELINE / "__main__.py"
OF_THE_RELEASE = ("pyspark", "py4j")
PYTHONPATH = "./code:./packages"
"""Where the archives are once Spark has unpacked them as `code` and `packages`."""
KEPT = {".py", ".html"}
LEFT_OUT = re.compile(r"(^|/)(tests|include)/")


def packages_archive(platform: Platform) -> Path:
    """Compressed only if it is to be uploaded."""
    requirements = needed(REQUIREMENTS.read_text())
    words = (requirements, LEFT_OUT.pattern, *WHEELS[platform])
    target = BUILT / f"packages-{platform}-{archives.digest(*(word.encode() for word in words))}.zip"
    if target.exists():
        return target
    BUILT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
        tree, locked = Path(scratch) / "tree", Path(scratch) / "requirements.txt"
        locked.write_text(requirements)
        archives.install(tree, platform, locked)
        kept = {name: path for name, path in archives.files(tree).items() if not LEFT_OUT.search(name)}
        archives.pack(kept, target, zipfile.ZIP_STORED if platform is Platform.HOST else zipfile.ZIP_DEFLATED)
    return target


def code_archive() -> Path:
    kept = {name: path for name, path in archives.sources(PIPELINE, "pipeline/").items() if path.suffix in KEPT}
    named = {**archives.sources(CORE, "clarion/"), **kept}
    target = BUILT / f"code-{archives.digest_of(named)}.zip"
    if not target.exists():
        archives.pack(named, target)
    return target


def needed(requirements: str) -> str:
    """The locked requirements without what the release brings."""
    each = re.split(r"^(?=\w)", requirements, flags=re.MULTILINE)
    return "".join(one for one in each if one.partition("==")[0] not in OF_THE_RELEASE)
