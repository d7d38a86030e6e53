"""Which deployment is meant, and where its parts are: found in the account, never typed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.exceptions import ClientError

from clarion.channels import CHANNELS, Channel
from clarion.networks import NETWORKS
from console.faults import Trouble

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_cloudformation.type_defs import StackTypeDef

STAGE = re.compile(r"[a-z][a-z0-9]{1,11}")
STACK = re.compile(rf"clarion-(?P<stage>{STAGE.pattern})-stack")


@dataclass(frozen=True)
class Queue:
    """A queue, its dead-letter queue, that of its held messages, and the function that works it off; `live` is its alias."""

    name: str
    url: str
    dead_url: str
    held_url: str | None
    function: str
    live: str


@dataclass(frozen=True)
class Deployment:
    stage: str
    account: str
    region: str
    outputs: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.stage} (account {self.account}, {self.region})"

    @property
    def prefix(self) -> str:
        """What every name of this deployment starts with."""
        return self.outputs["TablePrefix"]

    @property
    def lake(self) -> str:
        return self.outputs["LakeBucket"]

    @property
    def follows(self) -> bool:
        """Whether it has a network that ingest follows: Zulip's servers call by themselves."""
        return "IngestRoleArn" in self.outputs

    @property
    def queues(self) -> list[Queue]:
        """Those that this deployment has."""
        return [self.queue(name) for name in _functions() if _output(name) in self.outputs]

    def queue(self, name: str) -> Queue:
        if _output(name) not in self.outputs:
            raise Trouble(f"{self} has no queue {name}: nothing is deployed for it")
        url = self.outputs[_output(name)]
        has_held_queue = name in CHANNELS and CHANNELS[Channel(name)].has_held_queue
        function = f"{self.prefix}{_functions()[name]}"
        live = f"arn:aws:lambda:{self.region}:{self.account}:function:{function}:live"
        return Queue(name, url, f"{url}-dead", f"{url}-held" if has_held_queue else None, function, live)


def _functions() -> dict[str, str]:
    """By queue, the function that works it off. A deployment has the queues of its own networks alone."""
    return {
        "envelopes": "match",
        "pages": "pages",
        **{str(channel): str(channel) for channel in CHANNELS},
        **{f"{network}-commands": f"{network}-worker" for network in NETWORKS},
        "cleanup": "cleanup",
        "deliveries": "deliveries",
        "late-events": "late-events",
    }


def _output(queue: str) -> str:
    """The stack's output of the queue's URL, as `infra.stack` names it."""
    return f"{queue.title().replace('-', '')}QueueUrl"


def find(stage: str | None) -> Deployment:
    """The deployment of `stage`, or the only one there is in the account and region of the usual AWS settings."""
    cloudformation = boto3.client("cloudformation")
    region = cloudformation.meta.region_name
    if stage:
        if found := of_stage(stage):
            return found
        raise Trouble(f"no stack clarion-{stage}-stack in {region}: another stage, region or AWS_PROFILE?")
    every = _all(cloudformation)
    if len(every) == 1:
        return every[0]
    if every:
        raise Trouble(f"several deployments in {region}: choose one by --stage {'|'.join(one.stage for one in every)}")
    raise Trouble(f"no Clarion in {region} of this account: another region or AWS_PROFILE?")


def described(cloudformation: "CloudFormationClient", name: str) -> "StackTypeDef | None":
    """A stack by its name, in whatever state."""
    try:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if "does not exist" in error.response["Error"]["Message"]:
            return None
        raise
    return stack


def of_stage(stage: str) -> Deployment | None:
    """None if it was never deployed, or not to the end."""
    stack = described(boto3.client("cloudformation"), f"clarion-{stage}-stack")
    return _deployment(stack) if stack else None


def _all(cloudformation: "CloudFormationClient") -> list[Deployment]:
    pages = cloudformation.get_paginator("describe_stacks").paginate()
    return [one for page in pages for stack in page["Stacks"] if (one := _deployment(stack))]


def _deployment(stack: "StackTypeDef") -> Deployment | None:
    """None for another project's stack, and for one that was never finished and so has no outputs."""
    named = STACK.fullmatch(stack["StackName"])
    outputs = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
    if named is None or "TablePrefix" not in outputs:
        return None
    _, _, _, region, account, _ = stack["StackId"].split(":", 5)
    return Deployment(named["stage"], account, region, outputs)
