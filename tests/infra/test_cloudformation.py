"""What CloudFormation would refuse, found without an account: https://github.com/aws-cloudformation/cfn-lint"""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from tests.infra.templates import Deployment

ACCEPTED = {
    "I1022": "CDK joins text by Fn::Join; Fn::Sub would say the same",
    "W3005": "CDK has each resource wait for its role and that role's policy, although it refers to the role",
}
"""By rule; everything else that is found fails, however slight."""


@pytest.fixture(scope="module")
def findings(deployment: Deployment) -> Mapping[str, set[str]]:
    """What is found, by rule."""
    found: dict[str, set[str]] = {}
    for stack, template in deployment.items():
        for match in _checked(template):
            found.setdefault(match.rule.id, set()).add(f"{stack} {'/'.join(map(str, match.path))}: {match.message}")
    return found


def _checked(template: Mapping[str, Any]) -> list[Any]:
    arguments = ManualArgs(regions=["us-east-1"], include_checks=["I"])
    return list(lint(json.dumps(template), config=arguments))


def test_templates_are_what_cloudformation_takes(findings: Mapping[str, set[str]]) -> None:
    assert {rule: places for rule, places in findings.items() if rule not in ACCEPTED} == {}


def test_nothing_is_accepted_that_is_not_found(findings: Mapping[str, set[str]]) -> None:
    assert findings.keys() >= ACCEPTED.keys()


def test_what_cloudformation_refuses_is_found() -> None:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"QueueNames": "pushes", "VisibilityTimeout": -1}}
    assert {match.rule.id for match in _checked({"Resources": {"Queue": queue}})} > {"E3002", "E3034"}
