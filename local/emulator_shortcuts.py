"""What MiniStack does for each request and invocation, by a shorter way to the same.

- It reads the caller's policies from their JSON up to four times a request.
- It checks a condition's grammar at each request, before it reads the condition.
- Firehose's stand-in gives each batch a thread with an event loop of its own, and makes a file of each record, for which
  a function is invoked. Firehose itself makes one of what comes within seconds, even if it is not to wait.
- While a function's output may still come, it looks for it a thousand times a second.
- Whatever thread computes keeps the others waiting for 5 ms, and so the one that serves all requests.

For the environment of `local.recorded_emulator`.
"""

import asyncio
import queue
import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ministack.core import (  # type: ignore[import-not-found] # of the emulator's environment
    iam_evaluator,
    lambda_runtime,
    responses,
    router,
)
from ministack.services import dynamodb, firehose  # type: ignore[import-not-found] # as above

POLICIES = 1_024
"""Each role has one or two."""
CONDITIONS = 1_024
"""Requests differ in the values alone."""
FILE_SECONDS = 0.1
"""The records of so long share a file."""
SWITCH_SECONDS = 0.0005


def parsed_once(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of a policy that is text, what was read of the same text before: nobody changes it."""
    read = lru_cache(POLICIES)(parse)
    return lambda document: read(document) if isinstance(document, str) else parse(document)


def caller_arn(headers: Mapping[str, str] | None, query: Mapping[str, Any] | None = None) -> str:
    """Of who signed the request, or of the account's root: without the caller's policies, which have no bearing on it."""
    key = router.extract_access_key_id(headers or {}, query or {})
    credential = iam_evaluator.resolve_credential(key, _account_of(key)) if key else None
    return getattr(credential, "principal_arn", "") or f"arn:aws:iam::{responses.get_account_id()}:root"


def _account_of(key: str) -> str:
    account: str = responses._account_from_sts_session(key) or responses.get_account_id()  # noqa: SLF001 - as MiniStack does
    return account


async def firehose_on_the_loop(method: str, path: str, headers: Any, body: bytes, query: Any) -> Any:
    """Streams that only write to S3, as Clarion's does, call nobody back, so they need no thread that could wait."""
    return firehose._handle_request_sync(method, path, headers, body, query)  # noqa: SLF001 - MiniStack has no other


class SharedFiles:
    """What `deliver` makes a file of, record by record, in files of what comes within `FILE_SECONDS`."""

    def __init__(self, deliver: Callable[[Any, Any, bytes], None]) -> None:
        self._deliver = deliver
        self._waiting: dict[int, list[bytes]] = {}
        """By the destination's identity."""

    def add(self, stream: Any, destination: Any, record: bytes, partition: Any = None) -> None:
        """Raises `ValueError` for a stream that is partitioned by what its records hold, as Clarion's is not."""
        if partition or destination["config"].get("DynamicPartitioningConfiguration", {}).get("Enabled"):
            raise ValueError("dynamic partitioning")
        waiting = self._waiting.setdefault(id(destination), [])
        if not waiting:
            asyncio.get_running_loop().call_later(FILE_SECONDS, self._write, stream, destination)
        waiting.append(record)

    def _write(self, stream: Any, destination: Any) -> None:
        self._deliver(stream, destination, b"".join(self._waiting.pop(id(destination))))


def output(worker: Any, first_line_wait: float = 0.05, idle_confirm: float = 0.005, hard_cap: float = 0.25) -> str:
    """What a function has logged, by the same times in seconds as MiniStack's, but asleep until a line comes."""
    lines, end, wait = list[str](), time.monotonic() + hard_cap, first_line_wait
    while (left := end - time.monotonic()) > 0:
        try:
            lines.append(worker._stderr_queue.get(timeout=min(wait, left)))  # noqa: SLF001 - a method of the worker's
        except queue.Empty:
            break
        wait = idle_confirm
    return "\n".join(lines)


def take() -> None:
    """For all of this process."""
    sys.setswitchinterval(SWITCH_SECONDS)
    iam_evaluator.parse_policy_document = parsed_once(iam_evaluator.parse_policy_document)
    iam_evaluator.request_caller_arn = caller_arn
    dynamodb._condition_syntax_error = lru_cache(CONDITIONS)(dynamodb._condition_syntax_error)  # noqa: SLF001 - as above
    firehose.handle_request = firehose_on_the_loop
    firehose._deliver_to_s3 = SharedFiles(firehose._deliver_to_s3).add  # noqa: SLF001 - as above
    lambda_runtime.Worker._drain_stderr_bounded = output  # noqa: SLF001 - as above
