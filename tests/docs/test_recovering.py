"""What deletes data on docs/recovering.md deletes none once a command before it has failed.

The blocks run as a shell runs what is pasted into it: after a command that failed, the next one is tried.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clarion.networks import WALLETCONNECT, network
from tests.pages import scripts, section, text

PAGE = "docs/recovering.md"
AWS = """#!{python}
import json, sys
import jmespath
words = sys.argv[1:]
print(json.dumps(words), file=open("calls", "a"))
if any(words[: len(failing)] == failing and last in words for failing, last in {failing}):
    sys.exit(254)
awaited = {{"describe-backup": "AVAILABLE", "describe-table": "ACTIVE", "scan": "1", "create-backup": "arn"}}
answer = {answers}.get(words[1])
found = jmespath.search(words[words.index("--query") + 1], answer) if answer else awaited.get(words[1], "")
print(" ".join(found) if isinstance(found, list) else found)
"""
RESTORE = ("dynamodb", "restore-table-to-point-in-time")
LIVE = {"StackName": "clarion-prod-stack", "StackStatus": "DELETE_FAILED", "StackId": "arn:live"}


def called(
    folder: Path,
    heading: str,
    *,
    failing: list[tuple[list[str], str]],
    answers: dict[str, object] | None = None,
) -> list[list[str]]:
    """What the blocks below the heading ask of AWS if those `failing` fail: a command's words and another of them."""
    (folder / "aws").write_text(AWS.format(python=sys.executable, failing=failing, answers=answers or {}))
    (folder / "aws").chmod(0o700)
    script = "\n".join(scripts(section(PAGE, heading)))
    command = ["/bin/bash", "-c", script]
    variables = {"PATH": f"{folder}:/usr/bin:/bin"}
    subprocess.run(command, cwd=folder, env=variables, capture_output=True, check=False, timeout=60)
    return [json.loads(call) for call in (folder / "calls").read_text().splitlines()]


def deleted(calls: list[list[str]]) -> list[str]:
    return [words[-1] for words in calls if words[1].startswith("delete-")]


def test_restored_tables_take_the_place_of_all_old_ones(tmp_path: Path) -> None:
    calls = called(tmp_path, "Tables from a point in time", failing=[])
    assert deleted(calls) == [f"clarion-prod-{name}" for name in ("subscriptions", "tokens", "rules", "wake_ups")]


def test_each_table_of_walletconnect_that_is_restored_gets_its_expiry_again() -> None:
    restored, _, after = text(PAGE).partition("## Tables from")[2].partition("5. What a restored table")
    after = after.partition("\n6. ")[0]
    named = [table for table in network(WALLETCONNECT).needs.tables if f"`{table.name}`" in restored]
    assert named
    assert {table.name for table in named if f"`{table.name}`" in after} == {table.name for table in named if table.ttl}


@pytest.mark.parametrize("table", ["subscriptions", "rules", "wake_ups"])
def test_no_table_is_deleted_unless_all_were_restored(tmp_path: Path, table: str) -> None:
    failing = [([*RESTORE], f"clarion-prod-{table}")]
    assert deleted(called(tmp_path, "Tables from a point in time", failing=failing)) == []


@pytest.mark.parametrize("command", ["create-backup", "update-table"])
def test_no_table_is_deleted_without_a_backup_of_what_was_restored(tmp_path: Path, command: str) -> None:
    failing = [(["dynamodb", command], "--table-name")]
    assert deleted(called(tmp_path, "Tables from a point in time", failing=failing)) == []


def test_the_data_stays_while_the_live_stack_is_there(tmp_path: Path) -> None:
    answers: dict[str, object] = {"list-stacks": {"StackSummaries": [LIVE]}}
    assert deleted(called(tmp_path, "The data stack", failing=[], answers=answers)) == []


def test_what_a_data_stack_could_not_make_is_not_removed_with_it(tmp_path: Path) -> None:
    resources = [
        {"ResourceType": "AWS::DynamoDB::GlobalTable", "ResourceStatus": status, "PhysicalResourceId": name}
        for name, status in (("own", "CREATE_COMPLETE"), ("other", "CREATE_FAILED"), ("gone", "DELETE_COMPLETE"))
    ]
    answers: dict[str, object] = {
        "list-stacks": {"StackSummaries": [{**LIVE, "StackStatus": "DELETE_COMPLETE"}]},
        "list-stack-resources": {"StackResourceSummaries": resources},
    }
    calls = called(tmp_path, "The data stack", failing=[], answers=answers)
    assert deleted(calls) == ["own", "clarion-prod-data"]
