"""The CDK app: `cdk synth --context environment=prod`, or `make synth`."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from clarion.networks import NETWORKS, network
from infra.config import EnvironmentConfig, Platform
from infra.data import DataStack
from infra.environments import chosen
from infra.ntf import NtfStack
from infra.pipeline import PipelineStack
from infra.stack import ClarionStack

SETTINGS = Path(__file__).parents[1] / "cdk.json"
MISSING = {
    **{nodes.option: ",".join(nodes.examples) for name in NETWORKS if (nodes := network(name).needs.nodes)},
    **{name: json.dumps(options.example) for name in NETWORKS if (options := network(name).needs.options)},
    "alarm_email": "operators@clarion.invalid",
}
"""Stands where a deployment names the nodes to follow, what its networks ask for, and who receives the alarms."""


def define(**props: Any) -> ClarionStack:
    """The stacks of the environment that the context names; what is meant for AWS is checked by cdk-nag at synthesis."""
    app = App(**props)
    environment = chosen(app.node)
    if environment.platform is not Platform.HOST:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
    return add_stacks(app, environment)


def add_stacks(app: App, environment: EnvironmentConfig) -> ClarionStack:
    clarion = ClarionStack(app, environment=environment, data=DataStack(app, environment=environment))
    if environment.ntf_server:
        NtfStack(app, environment=environment, ntf=environment.ntf_server, clarion=clarion)
    if environment.pipeline:
        PipelineStack(app, environment=environment, pipeline=environment.pipeline, clarion=clarion)
    return clarion


def define_alone(environment: str, context: Mapping[str, str] = MappingProxyType({}), **props: Any) -> ClarionStack:
    """As the `cdk` command would have it defined, without the command and without copies of what it would upload.

    It is to be checked, and deployed nowhere.
    """
    flags = json.loads(SETTINGS.read_text())["context"]
    alone = {"aws:cdk:disable-asset-staging": True, "environment": environment, **MISSING, **context}
    return define(context={**flags, **alone}, **props)


def synthesise(stack: ClarionStack) -> None:
    app = stack.node.root
    if isinstance(app, App):
        app.synth()


if __name__ == "__main__":
    synthesise(define())
