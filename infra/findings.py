"""What cdk-nag's AwsSolutions asks for and Clarion does otherwise: each with its reason, beside what it is about."""

from typing import Any

from aws_cdk import Acknowledgment, Stack, Validations
from aws_cdk import aws_s3 as s3
from constructs import IConstruct


def accept(scope: IConstruct, rule: str, reason: str) -> None:
    """`rule` as cdk-nag numbers it, such as `L1` or, for one wildcard, `IAM5[Resource::*]`."""
    Validations.of(scope).acknowledge(Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason))


def objects_of(bucket: s3.IBucket, under: str = "") -> str:
    """The rule about wildcards, for all objects of a bucket."""
    return wildcard(bucket, bucket.arn_for_objects(f"{under}*"))


def wildcard(scope: IConstruct, arn: str) -> str:
    """The rule about wildcards, for one resource as cdk-nag names it."""
    return f"IAM5[Resource::{_flat(Stack.of(scope).resolve(arn))}]"


def _flat(value: Any) -> str:
    match value:
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(_flat(part) for part in parts)
        case {"Ref": str(name)}:
            return f"<{name}>"
    return str(value)
