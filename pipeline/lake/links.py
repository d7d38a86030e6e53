"""Lists of the data files that count, as Athena's tables read them: one for each kind and hour.

symlinks/<kind>/day=2026-11-20/hour=16/files    the URI of each data file, a line each
"""

from collections.abc import Callable, Iterable

from pipeline.columns import LINKS
from pipeline.lake.files import joined, swap_text


def write_link(root: str, kind: str, folder: str, paths: Callable[[], Iterable[str]]) -> None:
    """Have the list of an hour's kind name what counts by now; `folder` is such as `day=2026-11-20/hour=16`.

    `paths`, relative to the lake's root, are asked for once the list has been read that is replaced. So a list never
    goes back behind a commit, however late its writer is: whoever committed later has replaced what was read.
    """
    at = root.replace("s3a://", "s3://", 1)

    def lines(_: str | None) -> str:
        return "".join(f"{joined(at, path)}\n" for path in paths())

    while not swap_text(joined(root, f"{LINKS}/{kind}/{folder}/files"), lines):
        pass
