"""The CDK app: `cdk synth --context environment=prod`, or `make synth`."""

from typing import Any

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra.config import Platform
from infra.environments import chosen
from infra.stack import ClarionStack


def define(**props: Any) -> App:
    """The app of the environment that the context names; what is meant for AWS is checked by cdk-nag at synthesis."""
    app = App(**props)
    environment = chosen(app.node)
    if environment.platform is not Platform.HOST:
        Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
    ClarionStack(app, environment=environment)
    return app


if __name__ == "__main__":
    define().synth()
