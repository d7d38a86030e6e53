"""Names that are to be given, and that something has already: what an earlier attempt has left behind."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import boto3

from clarion.networks import NETWORKS, network
from console.doctor.plan import DeploymentPlan
from console.doctor.report import Check
from console.doctor.stacks import Owned

TODO = "delete what nobody needs: docs/recovering.md#names-that-are-taken"
LEFT_BEHIND = "docs/recovering.md#what-a-network-left-behind"
IMPORT = f"a network was here before: delete nothing, take it back as {LEFT_BEHIND} says"
LEAVE = f"name it in `networks`, or read first what becomes of it: {LEFT_BEHIND}"
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
KEPT = NAMED[:2]
"""What a network that is left out of a deployment leaves behind."""


def check_names(plan: DeploymentPlan, owned: Owned) -> Iterator[Check]:
    prefix = f"clarion-{plan.stage}-"
    for named in NAMED:
        if to_be_given := _wanted(plan, named) - _own(named, owned):
            taken = to_be_given & _existing(named, to_be_given, prefix)
            kept = {name for name in taken if _network_of(name, prefix)} if named in KEPT else set()
            if kept:
                yield _check_taken(named, kept, IMPORT)
            if taken > kept or not taken:
                yield _check_taken(named, taken - kept, TODO)


def check_networks(plan: DeploymentPlan, owned: Owned) -> Iterator[Check]:
    """Those whose tables or secrets a stack of ours has, and that the deployment would leave out."""
    prefix = f"clarion-{plan.stage}-"
    dropped = (name for named in KEPT for name in _own(named, owned) - _wanted(plan, named))
    for name in sorted({found for each in dropped if (found := _network_of(each, prefix))}):
        yield Check(name=f"network {name}", found="deployed, and not in the next deployment", todo=LEAVE)


def _wanted(plan: DeploymentPlan, named: Named) -> set[str]:
    return {name for each in plan.resources(named.kind) if isinstance(name := each.get(named.attribute), str)}


def _own(named: Named, owned: Owned) -> set[str]:
    return {named.name(each) for each in owned.get(named.kind, ())}


def _network_of(name: str, prefix: str) -> str | None:
    """Whose table or secret it is."""
    return next((one for one in NETWORKS if name.removeprefix(prefix) in _kept_by(one)), None)


def _kept_by(network_name: str) -> Iterable[str]:
    needs = network(network_name).needs
    return {*needs.secrets, *(table.name for table in needs.tables)}


def _existing(named: Named, names: set[str], prefix: str) -> set[str]:
    """Asked for by what is before the prefix of the deployment, such as a log group's folders, and the prefix."""
    return {
        found for start in {f"{name.partition(prefix)[0]}{prefix}" for name in names} for found in named.existing(start)
    }


def _check_taken(named: Named, taken: set[str], todo: str) -> Check:
    name = f"names of {named.words}"
    if not taken:
        return Check(name=name, found="free")
    shown = [*sorted(taken)[:SHOWN], *(["…"] if len(taken) > SHOWN else [])]
    return Check(name=name, found=f"{len(taken)} taken, by no stack of ours: {', '.join(shown)}", todo=todo)
