"""Reads what the deployed stack has written into its lake, while it writes."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

type Told = dict[str, Any]
"""One event, as its JSON line has it."""

_POLL = 0.1
_GZIP = b"\x1f\x8b"


class Lake:
    """All events so far, in the order of their files."""

    def __init__(self, s3: "S3Client", bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._read: set[str] = set()
        self._events: list[Told] = []

    async def growing(self, seconds: float) -> AsyncIterator[list[Told]]:
        """All events so far, again and again as more arrive, for so many seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while loop.time() < deadline:
            await asyncio.to_thread(self._read_new)
            yield self._events
            await asyncio.sleep(_POLL)

    def _read_new(self) -> None:
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket):
            for found in page.get("Contents", []):
                if found["Key"] not in self._read:
                    self._events += _lines(self._s3.get_object(Bucket=self._bucket, Key=found["Key"])["Body"].read())
                    self._read.add(found["Key"])


def _lines(content: bytes) -> list[Told]:
    text = gzip.decompress(content) if content.startswith(_GZIP) else content
    return [json.loads(line) for line in text.splitlines()]
