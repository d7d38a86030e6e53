"""MiniStack, which also records each permission that a role has been asked for: `python recorded_emulator.py FILE`.

It reads what a batch projects, too, for policies that have a condition on that.

A line of JSON for each, once: `role`, `session`, `action`, `resource` and `allowed`. It is a program of the emulator's
own environment, which holds nothing of Clarion's.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ministack import app  # type: ignore[import-not-found] # of the emulator's environment
from ministack.core import iam_actions, iam_evaluator, responses  # type: ignore[import-not-found] # as above

ROLE = ":assumed-role/"


def recorded(enforce: Callable[..., Any], log: Path) -> Callable[..., Any]:
    """Where MiniStack decides on every request, a transaction's items and a batch's tables one by one."""
    known: set[str] = set()

    def enforce_and_record(access_key: str, action: str, *words: Any, resource_arn: str = "*", **more: Any) -> Any:
        denied = enforce(access_key, action, *words, resource_arn=resource_arn, **more)
        caller = iam_evaluator.resolve_principal(access_key or "", responses.get_account_id())
        _, is_role, name = getattr(caller, "arn", "").partition(ROLE)
        if is_role:
            role, _, session = name.partition("/")
            asked = {"role": role, "session": session, "action": action, "resource": resource_arn}
            line = json.dumps({**asked, "allowed": denied is None})
            if line not in known:
                known.add(line)
                with log.open("a") as file:
                    file.write(line + "\n")
        return denied

    return enforce_and_record


def of_one_table(context_of: Callable[[bytes], dict[str, Any]]) -> Callable[[bytes], dict[str, Any]]:
    """What MiniStack reads of a request for a policy's conditions, also where a batch asks one table for it."""

    def context(body: bytes) -> dict[str, Any]:
        asked = json.loads(body or b"{}").get("RequestItems", {}).values()
        of_table = next(iter(asked)) if len(asked) == 1 else None
        return context_of(json.dumps(of_table).encode() if isinstance(of_table, dict) else body)

    return context


if __name__ == "__main__":
    iam_actions.dynamodb_service_context = of_one_table(iam_actions.dynamodb_service_context)
    iam_evaluator.enforce = recorded(iam_evaluator.enforce, Path(sys.argv.pop()))
    app.main()
