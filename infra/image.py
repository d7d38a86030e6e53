"""What ingest's image is made of, and how its task is asked whether it is ready."""

from infra.archives import ROOT

DOCKERFILE = "functions/ingest/Dockerfile"
SOURCES = ("layers/core/clarion", "functions/ingest")
IGNORED = ("*", *(f"!{source}/**" for source in SOURCES), "**/__pycache__")
"""Of the repository, which is the build's context: all but the sources, as a .dockerignore has it."""
HEALTH_COMMAND = ("python", "-m", "ingest.health")
STOP_SECONDS = 60
"""What the task has, once it was sent SIGTERM, to pass on what it holds."""


def base_is_pinned() -> bool:
    """Whether the Dockerfile names its base by a digest, as `make pin-base` writes it."""
    return "@sha256:" in (ROOT / DOCKERFILE).read_text()
