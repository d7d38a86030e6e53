"""The Lambda layers, kept under `.build/layers`."""

import tempfile
from pathlib import Path

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import archives
from infra.archives import CORE, ROOT, WHEELS
from infra.config import Platform

BUILT = archives.BUILT / "layers"
VENDOR = ROOT / "layers" / "vendor" / "requirements.txt"


class Layers(Construct):
    """`core` is the shared library `clarion`, `vendor` everything from elsewhere that the runtime lacks."""

    def __init__(self, scope: Construct, construct_id: str, *, platform: Platform) -> None:
        super().__init__(scope, construct_id)
        self.core = self._layer("Core", core_archive(), platform)
        self.vendor = self._layer("Vendor", vendor_archive(platform), platform)

    @property
    def all(self) -> list[lambda_.ILayerVersion]:
        return [self.core, self.vendor]

    def _layer(self, construct_id: str, archive: Path, platform: Platform) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            construct_id,
            code=lambda_.Code.from_asset(str(archive)),
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[lambda_.Architecture.ARM_64] if platform is Platform.ARM64 else None,
        )


def core_archive() -> Path:
    return archives.compiled(CORE, "python/clarion/", BUILT / "clarion")


def vendor_archive(platform: Platform) -> Path:
    """Install the locked wheels for `platform`; the AWS SDK is left to the runtime, so its dependants lack it here."""
    wheels = (word.encode() for word in WHEELS[platform])
    target = BUILT / f"vendor-{platform}-{archives.digest(VENDOR.read_bytes(), *wheels)}.zip"
    if target.exists():
        return target
    BUILT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT) as scratch:
        tree = Path(scratch)
        archives.install(tree, platform, VENDOR)
        archives.compile_modules(tree)
        archives.pack(archives.files(tree, "python/"), target)
    return target


if __name__ == "__main__":
    # Before CDK asks for them: what the emulator's functions take.
    core_archive()
    vendor_archive(Platform.HOST)
