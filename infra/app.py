"""The CDK app: `cdk synth --context environment=prod`, or `make synth`."""

import json
from pathlib import Path
from typing import Any

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra.config import Platform
from infra.environments import chosen
from infra.stack import ClarionStack

SETTINGS = Path(__file__).parents[1] / "cdk.json"
NO_NODE = "wss://node.invalid"
"""Stands where a deployment names the nodes to follow."""


def define(**props: Any) -> ClarionStack:
    """The stack of the environment that the context names; what is meant for AWS is checked by cdk-nag at synthesis."""
    app = App(**props)
    environment = chosen(app.node)
    if environment.platform is not Platform.HOST:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
    return ClarionStack(app, environment=environment)


def define_alone(environment: str, **props: Any) -> ClarionStack:
    """As the `cdk` command would have it defined, without the command: to be checked, and deployed nowhere."""
    flags = json.loads(SETTINGS.read_text())["context"]
    return define(context={**flags, "environment": environment, "node_urls": NO_NODE}, **props)


def synthesise(stack: ClarionStack) -> None:
    app = stack.node.root
    if isinstance(app, App):
        app.synth()


if __name__ == "__main__":
    synthesise(define())
