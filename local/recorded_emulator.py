"""MiniStack, which also records each permission that a role has been asked for: `python recorded_emulator.py FILE`.

It reads what a batch projects, too, for policies that have a condition on that. It unpacks a layer once, where MiniStack
does so for every process of a function: 2,000 files, half a second. And it looks at no more of a crowd's rules than a
page of them needs: MiniStack tries the condition on each rule of the key, a hundred thousand times a page.

A line of JSON for each, once for each access key: `role`, `session`, `action`, `resource` and `allowed`. It is a program
of the emulator's own environment, which holds nothing of Clarion's.
"""

import asyncio
import hashlib
import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from heapq import nsmallest
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

import emulator_shortcuts  # type: ignore[import-not-found] # beside this program
import hypercorn.asyncio  # type: ignore[import-not-found] # of the emulator's environment
import uvicorn
import uvloop  # type: ignore[import-not-found] # of the emulator's environment
from ministack import app  # type: ignore[import-not-found] # of the emulator's environment
from ministack.core import (  # type: ignore[import-not-found] # as above
    iam_actions,
    iam_evaluator,
    lambda_runtime,
    responses,
)
from ministack.services import dynamodb  # type: ignore[import-not-found] # as above

ROLE = ":assumed-role/"


def recorded(enforce: Callable[..., Any], log: Path) -> Callable[..., Any]:
    """Where MiniStack decides on every request, a transaction's items and a batch's tables one by one."""
    known: set[tuple[str, str, str, bool]] = set()

    def enforce_and_record(access_key: str, action: str, *words: Any, resource_arn: str = "*", **more: Any) -> Any:
        denied = enforce(access_key, action, *words, resource_arn=resource_arn, **more)
        asked = (access_key or "", action, resource_arn, denied is None)
        if asked not in known:
            known.add(asked)
            record(*asked)
        return denied

    def record(access_key: str, action: str, resource: str, allowed: bool) -> None:  # noqa: FBT001 - as it is recorded
        caller = iam_evaluator.resolve_credential(access_key, responses.get_account_id())
        _, is_role, name = getattr(caller, "principal_arn", "").partition(ROLE)
        if is_role:
            role, _, session = name.partition("/")
            line = {"role": role, "session": session, "action": action, "resource": resource, "allowed": allowed}
            with log.open("a") as file:
                file.write(json.dumps(line) + "\n")

    return enforce_and_record


def of_one_table(context_of: Callable[[bytes], dict[str, Any]]) -> Callable[[bytes], dict[str, Any]]:
    """What MiniStack reads of a request for a policy's conditions, also where a batch asks one table for it."""

    def context(body: bytes) -> dict[str, Any]:
        asked = json.loads(body or b"{}").get("RequestItems", {}).values()
        of_table = next(iter(asked)) if len(asked) == 1 else None
        return context_of(json.dumps(of_table).encode() if isinstance(of_table, dict) else body)

    return context


class UnpackedOnce(zipfile.ZipFile):
    """All who want the whole of an archive get links to the same files, which they must not change."""

    _unpacking = Lock()

    def namelist(self) -> list[str]:
        """What the links are called: the members would be looked at one by one."""
        return sorted({name.partition("/")[0] for name in super().namelist()})

    def extractall(self, path: Any = None, members: Any = None, pwd: bytes | None = None) -> None:
        if path is None or members is not None:
            super().extractall(path, members, pwd)
            return
        unpacked = self._unpacked()
        for name in self.namelist():
            (Path(path) / name).symlink_to(unpacked / name)

    def _unpacked(self) -> Path:
        """In the folder for all that is temporary, which goes with the emulator."""
        folder = Path(tempfile.gettempdir()) / f"unpacked-{self._digest()}"
        with self._unpacking:
            if not folder.exists():
                beginning = Path(tempfile.mkdtemp())
                super().extractall(beginning, super().namelist())
                beginning.rename(folder)
        return folder

    def _digest(self) -> str:
        with Path(str(self.filename)).open("rb") as archive:
            return hashlib.file_digest(archive, "sha256").hexdigest()


def unpacking_once(module: Any) -> Any:
    """`zipfile` as a module of MiniStack's that unpacks whole archives should have it."""
    return SimpleNamespace(**{**vars(module), "ZipFile": UnpackedOnce})


class SpanOfRules:
    """Of an index's partitions, what a query of `by_key` can show: the first rules within its span, and one more."""

    CONDITIONS = ("#0 = :0", "#0 = :0 AND subscription_id BETWEEN :1 AND :2")
    """Those of `match.rule_reader`. Any other query sees all."""

    def __init__(self, partitions: Mapping[Any, Iterable[tuple[str, str]]], query: Mapping[str, Any]) -> None:
        self._partitions = partitions
        values = query["ExpressionAttributeValues"]
        self._after, self._until = (values.get(name, {}).get("S") for name in (":1", ":2"))
        self._most = query["Limit"] + 1

    def get(self, key: Any, default: Any = ()) -> Iterable[tuple[str, str]]:
        """The rules' own keys, which begin with their subscriptions."""
        rules = self._partitions.get(key, default)
        if self._after and self._until:
            rules = [rule for rule in rules if self._after <= rule[0] <= self._until]
        return nsmallest(self._most, rules)

    @classmethod
    def suits(cls, query: Mapping[str, Any]) -> bool:
        known = query.get("IndexName") == "by_key" and query.get("KeyConditionExpression") in cls.CONDITIONS
        return known and "Limit" in query and "ExclusiveStartKey" not in query


def narrowed(query: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    members_of = dynamodb._index_members  # noqa: SLF001 - MiniStack has no other place for it

    def narrowed_query(data: dict[str, Any]) -> Any:
        if not SpanOfRules.suits(data):
            return query(data)
        name = data["IndexName"]
        dynamodb._index_members = lambda table: {name: SpanOfRules(members_of(table).get(name, {}), data)}  # noqa: SLF001 - as above
        try:
            return query(data)
        finally:
            dynamodb._index_members = members_of  # noqa: SLF001 - as above

    return narrowed_query


async def served(application: Any, config: Any) -> None:
    """In the place of Hypercorn's `serve`, which takes twice as long for a request. Of addresses, only the first counts."""
    host, _, port = config.bind[0].rpartition(":")
    options = uvicorn.Config(
        application,
        host,
        int(port),
        http="httptools",
        timeout_keep_alive=int(config.keep_alive_timeout),
        access_log=False,
        date_header=False,
        server_header=False,
        log_level="warning",
    )
    await uvicorn.Server(options).serve()


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    hypercorn.asyncio.serve = served
    lambda_runtime.zipfile = unpacking_once(zipfile)
    dynamodb._query = narrowed(dynamodb._query)  # noqa: SLF001 - as above
    iam_actions.dynamodb_service_context = of_one_table(iam_actions.dynamodb_service_context)
    emulator_shortcuts.take()
    iam_evaluator.enforce = recorded(iam_evaluator.enforce, Path(sys.argv.pop()))
    app.main()
