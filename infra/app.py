"""The CDK app: `cdk synth --context environment=prod`, or `make synth`."""

from aws_cdk import App

from infra.environments import chosen
from infra.stack import ClarionStack


def main() -> None:
    app = App()
    ClarionStack(app, environment=chosen(app.node))
    app.synth()


if __name__ == "__main__":
    main()
