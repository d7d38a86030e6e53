"""What is to be deployed: the templates of one environment, as `cdk synth` has written them into a folder."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from console.deployment import STACK
from console.faults import Trouble

KIND = "aws:cloudformation:stack"
LEFT_OPEN = {"unknown-account", "unknown-region"}
"""Of a stack that goes wherever the AWS settings lead."""

type Template = Mapping[str, Any]


class Bootstrap(NamedTuple):
    """The least version of what `cdk bootstrap` makes, and the SSM parameter that holds the one in the account."""

    version: int
    parameter: str


@dataclass(frozen=True)
class PlannedStack:
    """`account` and `region` are absent where the environment leaves them open, `bootstrap` where CDK needs nothing."""

    name: str
    template: Template
    account: str | None = None
    region: str | None = None
    bootstrap: Bootstrap | None = None

    @classmethod
    def read(cls, folder: Path, name: str, artifact: Mapping[str, Any]) -> Self:
        """https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.cloud_assembly_schema-readme.html"""
        properties = artifact["properties"]
        account, region = artifact["environment"].removeprefix("aws://").split("/")
        version, parameter = (
            properties.get(key) for key in ("requiresBootstrapStackVersion", "bootstrapStackVersionSsmParameter")
        )
        return cls(
            name=properties.get("stackName", name),
            template=json.loads((folder / properties["templateFile"]).read_text()),
            account=None if account in LEFT_OPEN else account,
            region=None if region in LEFT_OPEN else region,
            bootstrap=Bootstrap(version, parameter) if version and parameter else None,
        )

    def resources(self, kind: str) -> Iterator[Mapping[str, Any]]:
        """The properties of each."""
        every = self.template["Resources"].values()
        return (each.get("Properties", {}) for each in every if each["Type"] == kind)


@dataclass(frozen=True)
class DeploymentPlan:
    stacks: tuple[PlannedStack, ...]

    @classmethod
    def read(cls, folder: Path) -> Self:
        manifest = folder / "manifest.json"
        if not manifest.is_file():
            raise Trouble(f"`cdk synth` has written nothing into {folder}: `make doctor STAGE=…` has it do so")
        artifacts = json.loads(manifest.read_text())["artifacts"].items()
        return cls(tuple(PlannedStack.read(folder, name, each) for name, each in artifacts if each["type"] == KIND))

    @property
    def stage(self) -> str:
        return next(named["stage"] for stack in self.stacks if (named := STACK.fullmatch(stack.name)))

    def resources(self, kind: str) -> Iterator[Mapping[str, Any]]:
        for stack in self.stacks:
            yield from stack.resources(kind)
