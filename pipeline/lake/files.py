"""Files at a path or URI: read, written whole, replaced on a condition."""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from errno import ENOENT
from functools import cache
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
from botocore.exceptions import ClientError
from pyarrow import fs

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REMOVED_AT_ONCE = 1_000
"""https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html"""
CONNECTIONS = 16
"""Requests to S3 that go on at once, at most."""

type Change = Callable[[str | None], str | None]
"""What a file's text becomes, by what it is, which is None where there is no file; None leaves it as it is."""

_LOST = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}
"""What S3 answers if the object has changed, is being changed, or has gone since it was read.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html"""


def filesystem(place: str) -> tuple[fs.FileSystem, str]:
    """PyArrow wants absolute paths, and knows as `s3` what Hadoop may call `s3a`; Hadoop's `file:/…` is no URI to it.

    Where it isn't told the bucket's region, it would ask S3 for it each time; and only if it may open an object late,
    a small one is written by one request.
    """
    path = place.removeprefix("file:")
    uri = path.replace("s3a://", "s3://", 1) if "://" in path else str(Path(path).absolute())
    if uri.startswith("s3://"):
        options = {"allow_delayed_open": "true", "region": os.environ.get("AWS_DEFAULT_REGION")}
        uri = f"{uri}?{urlencode({name: value for name, value in options.items() if value})}"
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    return found


def joined(root: str, path: str) -> str:
    return f"{root.rstrip('/')}/{path}"


def exists(place: str) -> bool:
    """Whether there is anything at a path or URI; an empty bucket is something."""
    files, path = filesystem(place)
    return bool(files.get_file_info(path).type != fs.FileType.NotFound)


def listed(root: str, folder: str) -> dict[str, fs.FileInfo]:
    """The files anywhere below a folder of `root`, by their paths relative to `root`; none if there is no such folder."""
    files, base = filesystem(root)
    base = base.rstrip("/")
    found = files.get_file_info(fs.FileSelector(f"{base}/{folder}", allow_not_found=True, recursive=True))
    return {each.path.removeprefix(f"{base}/"): each for each in found if each.type == fs.FileType.File}


def is_shown(path: str) -> bool:
    """Whether a file is none of Hadoop's, or of a writer that hasn't come to its end."""
    return not path.rpartition("/")[2].startswith((".", "_"))


def folders(root: str, folder: str) -> list[str]:
    """The names of the folders right below a folder of `root`; none if there is no such folder."""
    return _right_below(root, folder, fs.FileType.Directory)


def files_in(root: str, folder: str) -> list[str]:
    """The names of the files right below a folder of `root`."""
    return _right_below(root, folder, fs.FileType.File)


def _right_below(root: str, folder: str, kind: fs.FileType) -> list[str]:
    files, base = filesystem(joined(root, folder))
    found = files.get_file_info(fs.FileSelector(base, allow_not_found=True))
    return sorted(each.base_name for each in found if each.type == kind)


def read_text(source: str) -> str | None:
    """None if there is no such file. What is no UTF-8 becomes U+FFFD, as in a damaged file.

    In S3 it is one request. PyArrow would first ask for the size, and of an object that is replaced by a longer one
    before its second request give the beginning.
    """
    if source.startswith(("s3://", "s3a://")):
        return _object(*_place(source))[0]
    files, path = filesystem(source)
    try:
        with files.open_input_stream(path, compression=None) as stream:
            return str(stream.read(), "utf-8", "replace")
    except FileNotFoundError:
        return None


def read_bytes(root: str, path: str) -> bytes | None:
    """The content of a file below `root`; None if there is no such file."""
    files, base = root_filesystem(root)
    try:
        with files.open_input_stream(f"{base.rstrip('/')}/{path}", compression=None) as stream:
            content: bytes = stream.read()
    except FileNotFoundError:
        return None
    return content


def read_file(root: str, path: str) -> bytes:
    """The content of a file below `root`. Raises `FileNotFoundError`."""
    if (content := read_bytes(root, path)) is None:
        raise FileNotFoundError(ENOENT, "no such file", joined(root, path))
    return content


@cache
def root_filesystem(root: str) -> tuple[fs.FileSystem, str]:
    """As `filesystem` gives it, made once: it keeps its connections to S3."""
    return filesystem(root)


def write_text(target: str, text: str) -> None:
    write_bytes(target, text.encode())


def write_bytes(target: str, content: bytes) -> None:
    """As one file, in the place of any other: a reader reads the old one or the new one. In S3 it is one PUT."""
    files, path = filesystem(target)
    if isinstance(files, fs.LocalFileSystem):
        replace_file(Path(path), content)
        return
    with create(target) as stream:
        stream.write(content)


def replace_file(target: Path, content: bytes) -> None:
    """On a disk: written beside it, under a name that is not shown, and renamed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    written = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        written.write_bytes(content)
        written.replace(target)
    finally:
        written.unlink(missing_ok=True)


def create(target: str) -> pa.NativeFile:
    """A file to write to, and its folder: in S3 there are none, and PyArrow would make an object for each.

    By itself PyArrow compresses what has the name of a compressed file.
    """
    files, path = filesystem(target)
    if isinstance(files, fs.LocalFileSystem):
        files.create_dir(path.rpartition("/")[0])
    return files.open_output_stream(path, compression=None)


def remove(root: str, paths: Iterable[str]) -> None:
    """Remove files by their paths relative to `root`; one that has gone is no error.

    PyArrow would ask S3 for each of them alone, and leave an empty object for its folder.
    """
    if "://" not in root:
        for path in paths:
            Path(joined(root.removeprefix("file:"), path)).unlink(missing_ok=True)
        return
    bucket, prefix = _place(root)
    for some in batched(paths, REMOVED_AT_ONCE, strict=False):
        _remove_objects(bucket, [joined(prefix, path).lstrip("/") for path in some])


def _remove_objects(bucket: str, keys: Sequence[str]) -> None:
    """Raises `OSError` if S3 refuses one of them: of those it says so in an answer that is no error."""
    answer = s3_client().delete_objects(
        Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
    )
    if refused := answer.get("Errors"):
        raise OSError(f"S3 refused to remove {len(refused)} objects: {refused[0]['Code']} for {refused[0]['Key']}")


def swap_text(target: str, change: Change) -> bool:
    """Replace a file's text by `change(text)` if it hasn't changed since it was read; returns whether it was written.

    Nothing is renamed or copied in S3: it is one PUT, with the condition that the object is still the one just read.
    """
    return _swap_object(target, change) if "://" in target else _swap_file(Path(target), change)


def _swap_object(target: str, change: Change) -> bool:
    bucket, key = _place(target)
    known, tag = _object(bucket, key)
    if (text := change(known)) is None:
        return False
    try:
        if tag is None:
            s3_client().put_object(Bucket=bucket, Key=key, Body=text.encode(), IfNoneMatch="*")
        else:
            s3_client().put_object(Bucket=bucket, Key=key, Body=text.encode(), IfMatch=tag)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _LOST:
            raise
        # The client sends a request again whose answer was lost: then the object may be its own.
        return _object(bucket, key)[0] == text
    return True


def _place(uri: str) -> tuple[str, str]:
    """The bucket and the key."""
    place = urlsplit(uri)
    return place.netloc, place.path.lstrip("/")


def _object(bucket: str, key: str) -> tuple[str | None, str | None]:
    """The text of an object, and its ETag."""
    try:
        found = s3_client().get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchKey":
            raise
        return None, None
    return found["Body"].read().decode(errors="replace"), found["ETag"]


@cache
def s3_client() -> "S3Client":
    import boto3  # noqa: PLC0415 - it takes as long as all else, and is needed for S3 alone
    from botocore.config import Config  # noqa: PLC0415 - the same

    return boto3.client("s3", config=Config(max_pool_connections=CONNECTIONS))


def _swap_file(target: Path, change: Change) -> bool:
    """Readers, which take no lock, read the file as it was or as it is from now on."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent):
        if (text := change(target.read_text(errors="replace") if target.exists() else None)) is None:
            return False
        replace_file(target, text.encode())
        return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Against other threads and processes; it ends with the process at the latest."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
