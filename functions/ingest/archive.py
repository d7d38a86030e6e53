"""The record of seen statements in S3: a base, and the deltas since.

    <prefix><tenure>-<number>-base     everything handled before the number was given out
    <prefix><tenure>-<number>-delta    what was handled since the last delta

`tenure` is the version of the lease under which its holder began; names sort by it and then by `number`. A holder
that has lost its lease without noticing can write only names that sort before its successor's base, where nobody
looks.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_BASE, _DELTA = "base", "delta"
_DELETED_AT_ONCE = 1000


class Archive:
    """Blocks while it talks to S3, and raises what the SDK raises."""

    def __init__(self, s3: "S3Client", bucket: str, prefix: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix
        self._tenure = 0
        self._number = 0

    def load(self) -> list[bytes]:
        """The latest base and its deltas; empty if there has never been a base."""
        while True:
            try:
                return [self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read() for key in self._latest()]
            except self._s3.exceptions.NoSuchKey:
                continue  # a leader removes what it has just replaced by a newer base

    def begin(self, tenure: int) -> None:
        self._tenure, self._number = tenure, 0

    def write_delta(self, content: bytes) -> None:
        self._put(self._name(_DELTA), content)

    def name_base(self) -> str:
        """To be taken before the snapshot is, so that the deltas written meanwhile sort after it."""
        return self._name(_BASE)

    def write_base(self, name: str, content: bytes) -> None:
        """Write it and remove what came before."""
        self._put(name, content)
        old = [key for key in self._keys() if key < name]
        for start in range(0, len(old), _DELETED_AT_ONCE):
            objects = [{"Key": key} for key in old[start : start + _DELETED_AT_ONCE]]
            self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})  # type: ignore[typeddict-item] # the stub's TypedDict

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{self._prefix}{self._tenure:012d}-{self._number:08d}-{kind}"

    def _put(self, key: str, content: bytes) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=content)

    def _latest(self) -> list[str]:
        keys = self._keys()
        bases = [key for key in keys if key.endswith(_BASE)]
        return [key for key in keys if key >= bases[-1]] if bases else []

    def _keys(self) -> list[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
        return sorted(found["Key"] for page in pages for found in page.get("Contents", []))
