"""What cdk-nag's AwsSolutions asks for and Clarion does otherwise: each with its reason, beside what it is about."""

from aws_cdk import Acknowledgment, CfnElement, Stack, Validations
from constructs import IConstruct


def accept(scope: IConstruct, rule: str, reason: str) -> None:
    """`rule` as cdk-nag numbers it, such as `L1` or, for one wildcard, `IAM5[Resource::*]`."""
    Validations.of(scope).acknowledge(Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason))


def objects_of(bucket: IConstruct, under: str = "") -> str:
    """How cdk-nag names all objects of a bucket, in the rule about wildcards."""
    resource = bucket.node.default_child
    if not isinstance(resource, CfnElement):
        raise TypeError(f"{bucket.node.path} is no bucket of this stack")
    return f"IAM5[Resource::<{Stack.of(bucket).get_logical_id(resource)}.Arn>/{under}*]"
