"""Two regions of one account hold the same stage beside each other."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template

from infra.app import define_alone
from infra.environments import ENVIRONMENTS
from tests.infra.conftest import LARGEST

ACCOUNT_WIDE = {
    "AWS::CloudFront::CachePolicy": "CachePolicyConfig.Name",
    "AWS::CloudFront::Function": "Name",
    "AWS::CloudFront::OriginAccessControl": "OriginAccessControlConfig.Name",
    "AWS::CloudFront::OriginRequestPolicy": "OriginRequestPolicyConfig.Name",
    "AWS::CloudFront::ResponseHeadersPolicy": "ResponseHeadersPolicyConfig.Name",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
    "AWS::S3::Bucket": "BucketName",
}
"""Where the name is that no other region may have. What has none is named by CloudFormation, at random."""


def account_wide(**context: str) -> set[tuple[str, str]]:
    anywhere = LARGEST.model_copy(
        update={"api": LARGEST.api.model_copy(update={"certificate_arn": None, "domain": None})}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENTS, "anywhere", anywhere)
        app = define_alone("anywhere", context, builtin_cloud_formation_validation=False).node.root
    stacks = [Template.from_stack(each).to_json() for each in app.node.children if isinstance(each, Stack)]
    return {named for stack in stacks for named in _named(stack["Resources"])}


def _named(resources: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in resources.values():
        found = each.get("Properties", {})
        if each["Type"] == "AWS::WAFv2::WebACL" and found["Scope"] == "CLOUDFRONT":
            yield each["Type"], str(found["Name"])
        if path := ACCOUNT_WIDE.get(each["Type"]):
            for key in path.split("."):
                found = found.get(key, {})
            if found:
                yield each["Type"], str(found)


def test_no_name_of_the_whole_account_is_the_same_in_two_regions() -> None:
    """The second as docs/operations.md has it deployed."""
    east, west = account_wide(), account_wide(region="us-west-2", per_address="none")
    assert "AWS::CloudWatch::Dashboard" in {kind for kind, _ in west}
    assert not east & west
