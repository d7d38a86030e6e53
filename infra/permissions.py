"""Permissions, stated action by action and resource by resource; nothing here adds more than is written."""

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms


def allow(who: iam.IGrantable, actions: str, *resources: str) -> None:
    """Grant `actions`, a service and its verbs as in `sqs: SendMessage`, on the ARNs `resources`."""
    service, verbs = actions.split(":")
    statement = iam.PolicyStatement(actions=[f"{service}:{verb}" for verb in verbs.split()], resources=list(resources))
    who.grant_principal.add_to_principal_policy(statement)


def allow_index(who: iam.IGrantable, table: dynamodb.ITableV2, index: str) -> None:
    allow(who, "dynamodb: Query", f"{table.table_arn}/index/{index}")


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
