"""Reads what the deployed stack has written into its lake, while it writes."""

import asyncio
import gzip
import json
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any

from clarion.networks import network
from clarion.storage import EVENTS_PREFIX

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

type LakeEvent = dict[str, Any]
"""One event, as its JSON line has it."""

_POLL = 0.1
_GZIP = b"\x1f\x8b"


class LocalLake:
    """All events so far, in the order of their files: each once, as a line may be in the lake twice."""

    def __init__(self, s3: "S3Client", bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._read: set[str] = set()
        self._events: dict[bytes, LakeEvent] = {}

    async def growing(self, seconds: float) -> AsyncIterator[list[LakeEvent]]:
        """All events so far, again and again as more arrive, for so many seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while loop.time() < deadline:
            await asyncio.to_thread(self._read_new)
            yield list(self._events.values())
            await asyncio.sleep(_POLL)

    def files(self) -> int:
        """How many the stack has written."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=EVENTS_PREFIX)
        return sum(page["KeyCount"] for page in pages)

    def _read_new(self) -> None:
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=EVENTS_PREFIX):
            for found in page.get("Contents", []):
                if found["Key"] not in self._read:
                    content = self._s3.get_object(Bucket=self._bucket, Key=found["Key"])["Body"].read()
                    self._events |= {line: json.loads(line) for line in _lines(content)}
                    self._read.add(found["Key"])


def trails(events: Iterable[LakeEvent]) -> dict[str, list[str]]:
    """By envelope id, in hex: what the lake has recorded of it, in the order of the events' times."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for event in sorted(events, key=lambda event: int(event["at"])):
        if digits := _id_of(event):
            known = (event.get(name) for name in ("channel", "decision", "attempt", "status", "reason", "receipt"))
            found[digits].append(" ".join(map(str, (event["at"], event["event"], *filter(None, known)))))
    return found


def _id_of(event: LakeEvent) -> str | None:
    if event["event"] == "observed" and "raw" in event:
        return network(event["network"]).decode(urlsafe_b64decode(event["raw"])).id.hex()
    return event.get("envelope_id")


def _lines(content: bytes) -> list[bytes]:
    return (gzip.decompress(content) if content.startswith(_GZIP) else content).splitlines()
