"""What all stacks have in common."""

from aws_cdk import CliCredentialsStackSynthesizer, DefaultStackSynthesizer, IStackSynthesizer, Stack
from aws_cdk import Environment as Account
from constructs import Construct

from infra.config import EnvironmentConfig


class EnvironmentStack(Stack):
    """`clarion-<stage>-<name>`, in the environment's account and region. CloudFormation tags what is in it as the stack."""

    def __init__(
        self, scope: Construct, name: str, *, environment: EnvironmentConfig, description: str, protected: bool = False
    ) -> None:
        super().__init__(
            scope,
            f"{environment.prefix}{name}",
            env=Account(account=environment.account, region=environment.region),
            description=description,
            tags={"clarion:stage": environment.stage},
            synthesizer=_synthesizer(environment.assets_bucket),
            termination_protection=protected,
        )


def _synthesizer(assets_bucket: str | None) -> IStackSynthesizer:
    """How a stack's code gets to AWS."""
    if assets_bucket is None:
        return DefaultStackSynthesizer()
    return CliCredentialsStackSynthesizer(file_assets_bucket_name=assets_bucket)
