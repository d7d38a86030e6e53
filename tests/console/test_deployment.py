"""Which deployment is meant, and what is said where none can be found."""

from pathlib import Path

import boto3
import pytest

from tests.console.account import QUEUES, Account, Clarion


def test_the_only_deployment_need_not_be_named(clarion: Clarion, account: Account) -> None:
    ended = clarion("redrive", "apns", "--dry-run")

    assert ended.code == 0


def test_where_there_are_several_one_must_be_named(clarion: Clarion, account: Account) -> None:
    account.cloudformation.stacks["clarion-dev-stack"] = account.cloudformation.stacks["clarion-prod-stack"]

    ended = clarion("redrive", "apns", "--dry-run")

    assert ended.code == 3
    assert "--stage prod|dev" in ended.err
    assert clarion("redrive", "apns", "--dry-run", "--stage", "dev").code == 0


def test_a_stage_that_is_not_there_is_told_with_the_region(clarion: Clarion, account: Account) -> None:
    ended = clarion("redrive", "apns", "--dry-run", "--stage", "dev")

    assert (ended.code, ended.err) == (
        3,
        "no stack clarion-dev-stack in us-east-1: another stage, region or AWS_PROFILE?\n",
    )


def test_another_projects_stack_and_an_unfinished_one_are_passed_over(clarion: Clarion, account: Account) -> None:
    account.cloudformation.stacks = {"CDKToolkit": {"TablePrefix": "x"}, "clarion-prod-stack": {}}

    ended = clarion("status")

    assert (ended.code, ended.err.partition(":")[0]) == (3, "no Clarion in us-east-1 of this account")


def test_missing_credentials_are_told_in_one_line(
    clarion: Clarion, account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))

    ended = clarion("status")

    assert ended.code == 3
    assert ended.err.startswith("no AWS credentials: sign in, or set AWS_PROFILE")
    assert ended.err.count("\n") == 1


def test_a_missing_region_is_told_in_one_line(
    clarion: Clarion, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")

    ended = clarion("status")

    assert (ended.code, ended.err.partition(":")[0]) == (3, "no AWS region")


def test_what_aws_refuses_is_told_with_what_was_asked(clarion: Clarion, account: Account) -> None:
    account.sqs.delete_queue(QueueUrl=account.urls["fcm-dead"])

    ended = clarion("redrive", "fcm")

    assert ended.code == 3
    assert ended.err.startswith("AWS refuses GetQueueAttributes: AWS.SimpleQueueService.NonExistentQueue")


def test_a_deployment_has_the_queues_of_commands_of_its_own_networks(account: Account, toy: str) -> None:
    assert [one.name for one in account.here.queues] == [*QUEUES[:-2], f"{toy}-commands", "cleanup"]
    del account.cloudformation.stacks["clarion-prod-stack"]["ToyCommandsQueueUrl"]
    assert [one.name for one in account.here.queues] == [*QUEUES[:-2], "cleanup"]


@pytest.mark.parametrize(
    ("queue", "function"),
    [("envelopes", "match"), ("voip", "voip"), ("webpush", "webpush"), ("toy-commands", "toy-worker")],
)
@pytest.mark.usefixtures("toy")
def test_a_queue_is_worked_off_by_its_function(account: Account, queue: str, function: str) -> None:
    here = account.here

    assert here.queue(queue).function == f"clarion-prod-{function}"
    assert here.queue(queue).dead_url == account.urls[f"{queue}-dead"]
    assert here.queue(queue).held_url == account.urls.get(f"{queue}-held")
