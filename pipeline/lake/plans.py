"""The runs of `replay`: each is a commit of its own, so that its manifest expires with the plan that it names.

replays/run=000042/commit=<id>/….parquet   what was planned, a commit of that name: see `pipeline.lake.commits`
replayed/000042                            how far it has been sent
"""

from pipeline.lake.commits import MANIFESTS, Manifest, name_of, read_manifests
from pipeline.lake.files import listed

REPLAYS, CHECKPOINTS = "replays", "replayed"


def run_name(run: str) -> str:
    return f"{REPLAYS}/run={run}"


def run_of(manifest: Manifest) -> str:
    return manifest.hour.partition("=")[2]


def runs_since(root: str, moment: int) -> list[Manifest]:
    """Those that were planned since then (UNIX milliseconds), in order."""
    names = map(name_of, sorted(listed(root, f"{MANIFESTS}/{REPLAYS}")))
    return [run for run in read_manifests(root, list(names)) if (run.sealed_at or 0) >= moment]


def next_run(root: str) -> str:
    """The number after the last: two that plan at once choose the same, and the commit of the second one fails."""
    planned = (path.partition("=")[2].removesuffix(".json") for path in listed(root, f"{MANIFESTS}/{REPLAYS}"))
    begun = (path.rpartition("/")[2] for path in listed(root, CHECKPOINTS))
    return f"{max(map(int, (*planned, *begun)), default=0) + 1:06}"
