"""Permissions, stated action by action and resource by resource; nothing here adds more than is written."""

from collections.abc import Mapping

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

type Conditions = Mapping[str, Mapping[str, str | list[str]]]
"""Values by condition key, by operator."""

OWN_ACCOUNT = {"aws:ResourceAccount": Aws.ACCOUNT_ID}
"""Of keys and buckets, whose names come from parameters in SSM: whoever can write one leads to no other account's.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
"""


def allow(who: iam.IGrantable, actions: str, *resources: str, conditions: Conditions | None = None) -> None:
    """Grant `actions`, a service and its verbs as in `sqs: SendMessage`, on the ARNs `resources`.

    Of S3 on those of this account alone: their names don't say whose they are.
    """
    own = {"StringEquals": OWN_ACCOUNT} if actions.startswith("s3:") else {}
    statement = iam.PolicyStatement(
        actions=_listed(actions), resources=list(resources), conditions={**own, **(conditions or {})}
    )
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
    via = f"{service}.{Stack.of(key).region}.amazonaws.com"
    allow(who, f"kms: {verbs}", key.key_arn, conditions={"StringEquals": {"kms:ViaService": via, **OWN_ACCOUNT}})


def _listed(actions: str) -> list[str]:
    service, verbs = actions.split(":")
    return [f"{service}:{verb}" for verb in verbs.split()]
