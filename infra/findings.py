"""What cdk-nag's AwsSolutions asks for and Clarion does otherwise: each with its reason, beside what it is about."""

import json

from aws_cdk import Acknowledgment, CfnElement, CfnOutput, Stack, Validations
from constructs import Construct, IConstruct


def accept(scope: IConstruct, rule: str, reason: str) -> None:
    """`rule` as cdk-nag numbers it, such as `L1` or, for one wildcard, `IAM5[Resource::*]`."""
    Validations.of(scope).acknowledge(Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason))


def objects_of(bucket: IConstruct, under: str = "") -> str:
    """How cdk-nag names all objects of a bucket, in the rule about wildcards."""
    return f"IAM5[Resource::<{_logical_id(bucket)}.Arn>/{under}*]"


def objects_elsewhere(bucket: IConstruct, under: str = "") -> str:
    """The same for a policy in another stack than the bucket's."""
    reference = _compact({"Fn::GetAtt": [_logical_id(bucket), "Arn"]})
    # CDK decides on an output's name after all is defined; here it says which it will be.
    output = CfnOutput(Construct(Stack(), "Publish"), f"Output{reference}", value="-")
    of = {"StackName": Stack.of(bucket).stack_name, "Region": Stack.of(bucket).region}
    named = {"Fn::GetStackOutput": {**of, "OutputName": Stack.of(output).get_logical_id(output)}}
    return f"IAM5[Resource::{_compact(named)}/{under}*]"


def _logical_id(bucket: IConstruct) -> str:
    resource = bucket.node.default_child
    if not isinstance(resource, CfnElement):
        raise TypeError(f"{bucket.node.path} is no bucket of this app")
    return Stack.of(bucket).get_logical_id(resource)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
