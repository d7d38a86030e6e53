"""Every policy against what IAM knows: https://docs.aws.amazon.com/service-authorization/latest/reference/

IAM takes an action that doesn't exist, and one that never applies to the resource beside it, without a word.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.infra.policies import IAM, LOG_GROUP, Statement, format_of, statements
from tests.infra.templates import Deployment

GLOBAL = {"aws:ResourceAccount", "aws:SecureTransport", "aws:SourceAccount", "aws:SourceArn"}
"""Those that no service lists: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html"""
OF_OTHERS = {"dataset"}
"""What `GetMetricData` asks for on behalf of PromQL alone: the figures of services and of ours belong to none."""

type Action = Mapping[str, Any]
"""As IAM describes it."""


def faults(statement: Statement) -> Iterator[str]:
    for name in statement.actions:
        known = list(described(name))
        if not known:
            yield f"{statement.place}: no action {name}"
            continue
        for resource in statement.resources:
            if not _is_a_key_s_own(resource, statement) and not any(applies(resource, each) for each in known):
                yield f"{statement.place}: {name} on {resource}"
        for key in statement.conditions - GLOBAL:
            if not all(key in keys_of(each) for each in known):
                yield f"{statement.place}: {name} if {key}"


def described(name: str) -> Iterator[Action]:
    """The actions that a name with wildcards stands for."""
    service, _, pattern = name.partition(":")
    for verb in IAM.actions.get_actions_for_service(service):
        if fnmatchcase(verb, pattern):
            yield {"service": service, **IAM.actions.get_action_details(service, verb)}


def _is_a_key_s_own(resource: str, statement: Statement) -> bool:
    """In the policy of a key, `*` is the key: https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-overview.html"""
    return resource == "*" and statement.place.endswith("(AWS::KMS::Key)")


def applies(resource: str, action: Action) -> bool:
    """Whether the action asks for permission on such a resource: on `*` alone, if it is about none in particular."""
    types = [each["name"] for each in action["resourceTypes"] if each["name"] not in OF_OTHERS]
    if not types or resource == "*":
        return resource == "*" and not types
    formats = [format_of(action["service"], each) for each in types]
    return any(covers(resource, each) for each in [*formats, *([LOG_GROUP] if "log-group" in types else [])])


def covers(resource: str, arn_format: str) -> bool:
    """Whether a statement's resource is an ARN of this format, or begins one and ends with `*`."""
    ours, theirs = (re.split(r"[:/]", each) for each in (resource, arn_format))
    if arn_format.endswith("/${ObjectName}"):
        ours = [*ours[: len(theirs) - 1], "/".join(ours[len(theirs) - 1 :])]
    if ours[-1] == "*":
        ours += ["*"] * (len(theirs) - len(ours))
    return len(ours) == len(theirs) and all(map(_fits, ours, theirs))


def _fits(part: str, of_format: str) -> bool:
    return part in {"*", of_format} or (of_format.startswith("${") and part != "")


def keys_of(action: Action) -> set[str]:
    """The condition keys that there are when the action is asked for."""
    return {*action["conditionKeys"], *(key for each in action["resourceTypes"] for key in each["conditionKeys"])}


def test_each_statement_is_about_actions_resources_and_conditions_that_belong_together(deployment: Deployment) -> None:
    assert [fault for statement in statements(deployment) for fault in faults(statement)] == []


QUEUE = "arn:aws:sqs:us-east-1:111111111111:name"


@pytest.mark.parametrize(
    ("action", "resource", "conditions"),
    [
        ("sqs:SendMessages", QUEUE, ()),
        ("sqs:SendMessageBatch", QUEUE, ()),
        ("sqs:SendMessage", "*", ()),
        ("ecr:GetAuthorizationToken", "arn:aws:ecr:us-east-1:111111111111:repository/name", ()),
        ("s3:ListBucket", "arn:aws:s3:::bucket/*", ()),
        ("s3:GetObject", "arn:aws:s3:::bucket", ()),
        ("dynamodb:GetItem", "arn:aws:dynamodb:us-east-1:111111111111:table/name/index/by_key", ()),
        ("dynamodb:GetRecords", "arn:aws:dynamodb:us-east-1:111111111111:table/name", ()),
        ("sqs:SendMessage", QUEUE, ("kms:ViaService",)),
        ("s3:ListBucket", "arn:aws:s3:::bucket", ("s3:prefixes",)),
    ],
)
def test_what_iam_would_never_grant_is_found(action: str, resource: str, conditions: tuple[str, ...]) -> None:
    assert len(list(faults(Statement("a policy", (action,), (resource,), frozenset(conditions))))) == 1


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("logs:PutLogEvents", "arn:aws:logs:us-east-1:111111111111:log-group:name:*"),
        ("logs:CreateLogStream", "arn:aws:logs:us-east-1:111111111111:log-group:name:*"),
        ("s3:GetObject", "arn:aws:s3:::bucket/a/folder/*"),
        ("dynamodb:GetRecords", "arn:aws:dynamodb:us-east-1:111111111111:table/name/stream/*"),
        ("ecr:GetAuthorizationToken", "*"),
    ],
)
def test_what_iam_grants_is_no_fault(action: str, resource: str) -> None:
    assert list(faults(Statement("a policy", (action,), (resource,), frozenset()))) == []
