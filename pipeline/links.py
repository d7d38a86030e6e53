"""Lists of the data files that count, as Athena's tables read them: one for each kind and hour.

symlinks/<kind>/day=2026-11-20/hour=16/files    the URI of each data file, a line each
"""

from collections.abc import Iterable, Mapping

from pipeline.columns import LINKS
from pipeline.files import joined, write_text


def write_links(root: str, folder: str, paths: Mapping[str, Iterable[str]]) -> None:
    """`folder` is the hour's, such as `day=2026-11-20/hour=16`; `paths` are by kind, relative to the lake's root."""
    at = root.replace("s3a://", "s3://", 1)
    for kind, of_kind in paths.items():
        lines = (f"{joined(at, path)}\n" for path in of_kind)
        write_text(joined(root, f"{LINKS}/{kind}/{folder}/files"), "".join(lines))
