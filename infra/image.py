"""What the tasks' image is made of, and how ingest's task is asked whether it is ready.

The NTF server's task runs the same image by another command.
"""

from infra.archives import ROOT

DOCKERFILE = "functions/ingest/Dockerfile"
SOURCES = ("layers/core/clarion", "functions/ingest", "functions/ntf")
IGNORED = ("*", *(f"!{source}/**" for source in SOURCES), "**/__pycache__")
"""Of the repository, which is the build's context: all but the sources, as a .dockerignore has it."""
NTF_COMMAND = ("python", "-m", "ntf")
HEALTH_COMMAND = ("python", "-m", "ingest.health")
STOP_SECONDS = 60
"""What the task has, once it was sent SIGTERM, to pass on what it holds."""


def base_is_pinned() -> bool:
    """Whether the Dockerfile names its base by a digest, as `make pin-base` writes it."""
    return "@sha256:" in (ROOT / DOCKERFILE).read_text()
