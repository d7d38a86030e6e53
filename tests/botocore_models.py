"""botocore's descriptions of the services, read once for all sessions of a process.

Most tests begin with a session of their own, and each unpacked and parsed the same files anew: three quarters of the
time that its first client took. Within a session botocore shares what it has read among all clients, as here.

moto merges descriptions of its own into what it reads, so it reads for itself.
"""

from typing import Any

from botocore.loaders import JSONFileLoader
from moto.core.loaders import Loader

BOTOCORES = JSONFileLoader.load_file
"""The function as botocore has it."""
_read: dict[str, Any] = {}


def install() -> None:
    """For all of the process."""
    JSONFileLoader.load_file = _load_file  # type: ignore[assignment, method-assign]
    Loader.FILE_LOADER_CLASS = _UnsharedLoader


class _UnsharedLoader(JSONFileLoader):
    load_file = BOTOCORES


def _load_file(loader: JSONFileLoader, file_path: str) -> Any:
    """None if there is no such file, which is looked for again."""
    if file_path not in _read:
        found = BOTOCORES(loader, file_path)
        if found is None:
            return None
        _read[file_path] = found
    return _read[file_path]


def read_so_far() -> dict[str, Any]:
    """By path, without its ending."""
    return dict(_read)
