"""The lake's raw lines as they arrived, hour by hour: docs/lake.md, "What lies where"."""

import gzip
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from io import BufferedIOBase, BufferedReader
from typing import TYPE_CHECKING, NamedTuple, cast

from clarion.storage import EVENTS_PREFIX

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

READERS = 16
"""How many files are fetched at once."""
HOUR = timedelta(hours=1)
LONGEST_LINE = 1 << 20
"""Bytes; Firehose's records have less. What is longer, in a file that somebody else wrote, comes in pieces."""
_BUFFER = 1 << 18


class File(NamedTuple):
    key: str
    written_at: datetime


class Lake:
    """`s3` needs room for `READERS` connections."""

    def __init__(self, s3: "S3Client", bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def files(self, hour: datetime, after: str = EVENTS_PREFIX) -> list[File]:
        """What arrived in the hour, in UTC, that `hour` lies in; of keys that sort behind `after`."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{EVENTS_PREFIX}day={hour:%Y-%m-%d}/hour={hour:%H}/", StartAfter=after
        )
        return [File(one["Key"], one["LastModified"]) for page in pages for one in page.get("Contents", [])]

    def lines(self, file: File) -> Iterator[bytes]:
        body = self._s3.get_object(Bucket=self._bucket, Key=file.key)["Body"]
        # A StreamingBody is an IOBase that can be read; its type says less.
        with BufferedReader(cast("BufferedReader", body), _BUFFER) as raw:
            if file.key.endswith(".gz"):
                with gzip.open(raw) as text:
                    yield from _lines(text)
            else:
                yield from _lines(raw)


def _lines(text: BufferedIOBase) -> Iterator[bytes]:
    return iter(partial(text.readline, LONGEST_LINE), b"")


def hours_back(since: datetime, until: datetime) -> Iterator[datetime]:
    """The hours that lie in the period in whole or in part, the youngest first."""
    hour = until.replace(minute=0, second=0, microsecond=0)
    while hour + HOUR > since:
        yield hour
        hour -= HOUR
