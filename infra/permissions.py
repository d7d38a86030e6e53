"""Permissions, stated action by action and resource by resource; nothing here adds more than is written."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms


def allow(who: iam.IGrantable, actions: str, *resources: str) -> None:
    """Grant `actions`, a service and its verbs as in `sqs: SendMessage`, on the ARNs `resources`."""
    statement = iam.PolicyStatement(actions=_listed(actions), resources=list(resources))
    who.grant_principal.add_to_principal_policy(statement)


def for_alarms(actions: str, resource: str) -> iam.PolicyStatement:
    """Lets the alarms of this account do `actions`, as `allow` has them; to lie at the resource."""
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
        actions=_listed(actions),
        resources=[resource],
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
    )


def allow_index(who: iam.IGrantable, table: str, index: str) -> None:
    allow(who, "dynamodb: Query", f"{table}/index/{index}")


def allow_key(who: iam.IGrantable, key: kms.IKey, service: str, verbs: str = "Decrypt GenerateDataKey") -> None:
    """Let `service` use the key on behalf of `who`; the key itself stays out of reach. Reading takes `Decrypt` alone.

    https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service
    """
    statement = iam.PolicyStatement(
        actions=[f"kms:{verb}" for verb in verbs.split()],
        resources=[key.key_arn],
        conditions={"StringEquals": {"kms:ViaService": f"{service}.{Stack.of(key).region}.amazonaws.com"}},
    )
    who.grant_principal.add_to_principal_policy(statement)


def _listed(actions: str) -> list[str]:
    service, verbs = actions.split(":")
    return [f"{service}:{verb}" for verb in verbs.split()]
