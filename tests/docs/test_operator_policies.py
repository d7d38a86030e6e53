"""The policies for operators grant what the page says that the commands use, and what IAM knows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.infra.test_iam import applies, described, keys_of

DOCS = Path(__file__).parents[2] / "docs"
LOOKING = ("doctor", "status", "why", "export-rules", "zulip server list", "zulip keys", "walletconnect project list")
ACTING = ("send-test", "mute", "redrive", "zulip server add", "walletconnect project add")
OF_AWS_COMMANDS = {
    "look": {"ce:GetCostAndUsage", "cloudwatch:DescribeAlarmHistory", "logs:FilterLogEvents", "sqs:GetQueueUrl"},
    "act": {"ecs:UpdateService", "sqs:PurgeQueue"},
    "repair": {"sqs:PurgeQueue", "sqs:ReceiveMessage"},
}
"""What the page has `aws` do, beside our own commands."""
OF_ALL = {"cloudformation:DescribeStacks", "kms:Decrypt"}
SECRETS = "secretsmanager:GetSecretValue"


def granted(name: str) -> set[str]:
    return {action for statement in statements(name) for action in _listed(statement["Action"])}


def statements(name: str) -> list[dict[str, Any]]:
    document = json.loads((DOCS / "examples" / f"operator-{name}.json").read_text())
    return list(document["Statement"])


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def used(*commands: str) -> set[str]:
    """By the table of the page."""
    return {action for command in commands for action in _actions(command)}


def _actions(command: str) -> Iterator[str]:
    page = (DOCS / "operations.md").read_text()
    (row,) = re.findall(rf"^\| `{command}`[^|]*\|(.*)\|$", page, re.MULTILINE)
    yield from re.findall(r"`([a-z0-9-]+:[A-Za-z]+)`", row)


def test_who_looks_may_use_what_changes_nothing_but_no_secret() -> None:
    assert granted("look") == used(*LOOKING) - {SECRETS} | OF_AWS_COMMANDS["look"] | OF_ALL


def test_who_acts_may_use_the_other_commands_as_well() -> None:
    assert granted("act") == used(*ACTING) - granted("look") | OF_AWS_COMMANDS["act"] | {"kms:GenerateDataKey"}


def test_who_acts_starts_the_tasks_of_every_service_anew() -> None:
    (statement,) = (each for each in statements("act") if each["Action"] == "ecs:UpdateService")
    started = {resource.rpartition(":")[2] for resource in statement["Resource"]}
    pages = "".join((DOCS / name).read_text() for name in ("operations.md", "ntf.md", "recovering.md"))
    named = re.findall(r"aws ecs update-service --cluster (\S+) --service (\S+)", pages)
    assert started == {f"service/{cluster}/{service}" for cluster, service in named}


def test_who_repairs_may_start_the_jobs_and_see_to_what_has_failed() -> None:
    assert granted("repair") == used("replay") | OF_AWS_COMMANDS["repair"]


def test_who_looks_reads_all_that_explain_does() -> None:
    assert used("clarion-pipeline explain") <= granted("look")


def test_who_deploys_fills_in_the_secrets_and_takes_on_cdk_s_roles() -> None:
    assert granted("deploy") == {"sts:AssumeRole", SECRETS, "secretsmanager:PutSecretValue"}


@pytest.mark.parametrize("name", ["look", "act", "repair", "deploy"])
def test_iam_grants_each_action_on_what_stands_beside_it(name: str) -> None:
    for statement in statements(name):
        for action in _listed(statement["Action"]):
            (known,) = described(action)
            resources = [each for each in _listed(statement["Resource"]) if each != "*"]
            assert not resources or any(applies(each, known) for each in resources), action
            conditions = [key for given in statement.get("Condition", {}).values() for key in given]
            assert {key for key in conditions if not key.startswith("aws:ResourceTag/")} <= keys_of(known), action
