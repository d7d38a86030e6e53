"""Names that are to be given, and that something has already: what an earlier attempt has left behind."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import boto3

from console.doctor.plan import DeploymentPlan
from console.doctor.report import Check
from console.doctor.stacks import Owned

TODO = "delete what nobody needs: docs/recovering.md#names-that-are-taken"
SHOWN = 3


class Named(NamedTuple):
    """What outlives a stack under a name that the template gives. `existing` lists those that begin so.

    `name` makes one of what CloudFormation calls it.
    """

    kind: str
    attribute: str
    words: str
    existing: Callable[[str], Iterator[str]]
    name: Callable[[str], str] = str


def _tables(prefix: str) -> Iterator[str]:
    for page in boto3.client("dynamodb").get_paginator("list_tables").paginate():
        yield from (name for name in page["TableNames"] if name.startswith(prefix))


def _secrets(prefix: str) -> Iterator[str]:
    """Also those that wait for their deletion, and keep their names until then."""
    pages = boto3.client("secretsmanager").get_paginator("list_secrets")
    for page in pages.paginate(IncludePlannedDeletion=True, Filters=[{"Key": "name", "Values": [prefix]}]):
        yield from (secret["Name"] for secret in page["SecretList"])


def _log_groups(prefix: str) -> Iterator[str]:
    for page in boto3.client("logs").get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
        yield from (group["logGroupName"] for group in page["logGroups"])


def _queues(prefix: str) -> Iterator[str]:
    for page in boto3.client("sqs").get_paginator("list_queues").paginate(QueueNamePrefix=prefix):
        yield from map(_last, page.get("QueueUrls", []))


def _last(url: str) -> str:
    return url.rpartition("/")[2]


def secret_name(secret_id: str) -> str:
    """Of a name, or of an ARN, which ends with six random letters."""
    _, is_arn, name = secret_id.rpartition(":secret:")
    return name.rpartition("-")[0] if is_arn else name


NAMED = (
    Named("AWS::DynamoDB::GlobalTable", "TableName", "tables", _tables),
    Named("AWS::SecretsManager::Secret", "Name", "secrets", _secrets, secret_name),
    Named("AWS::Logs::LogGroup", "LogGroupName", "log groups", _log_groups),
    Named("AWS::SQS::Queue", "QueueName", "queues", _queues, _last),
)


def check_names(plan: DeploymentPlan, owned: Owned) -> Iterator[Check]:
    for named in NAMED:
        wanted = {name for each in plan.resources(named.kind) if isinstance(name := each.get(named.attribute), str)}
        own = {named.name(each) for each in owned.get(named.kind, ())}
        if to_be_given := wanted - own:
            yield _check_taken(named, to_be_given & _existing(named, to_be_given, f"clarion-{plan.stage}-"))


def _existing(named: Named, names: set[str], prefix: str) -> set[str]:
    """Asked for by what is before the prefix of the deployment, such as a log group's folders, and the prefix."""
    return {
        found for start in {f"{name.partition(prefix)[0]}{prefix}" for name in names} for found in named.existing(start)
    }


def _check_taken(named: Named, taken: set[str]) -> Check:
    name = f"names of {named.words}"
    if not taken:
        return Check(name=name, found="free")
    shown = [*sorted(taken)[:SHOWN], *(["…"] if len(taken) > SHOWN else [])]
    return Check(name=name, found=f"{len(taken)} taken, by no stack of ours: {', '.join(shown)}", todo=TODO)
