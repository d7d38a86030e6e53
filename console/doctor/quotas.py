"""What the account may have, against what is to be deployed."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import boto3
from botocore.exceptions import ClientError

from console.doctor import needs
from console.doctor.plan import DeploymentPlan
from console.doctor.report import Check, with_refusal
from console.doctor.stacks import Owned

RAISE = "aws service-quotas request-service-quota-increase --service-code {service} --quota-code {code} --desired-value {value}"
UNKNOWN = "NoSuchResourceException"
"""Service Quotas' answer for a quota of which the account has no value of its own."""


class Demand(Protocol):
    """What a quota bounds."""

    def needed(self, plan: DeploymentPlan, owned: Owned) -> float:
        """More than there is."""

    def used(self) -> int | None:
        """Of what the account has been granted; None where that is no number that AWS lists."""


class Listing(NamedTuple):
    """As many as are listed of a kind: in the member of the answers to an operation."""

    kind: str
    service: Any
    operation: str
    member: str
    options: Mapping[str, Any] = MappingProxyType({})

    def needed(self, plan: DeploymentPlan, owned: Owned) -> float:
        """What is there already is not needed once more."""
        return len(list(plan.resources(self.kind))) - len(owned.get(self.kind, ()))

    def used(self) -> int:
        client = boto3.client(self.service)
        if not client.can_paginate(self.operation):
            return len(getattr(client, self.operation)(**self.options)[self.member])
        return sum(len(page[self.member]) for page in client.get_paginator(self.operation).paginate(**self.options))


class AtOnce(NamedTuple):
    """As much as the deployment runs at once, by its plan."""

    of: Callable[[DeploymentPlan], float]

    def needed(self, plan: DeploymentPlan, _: Owned) -> float:
        return self.of(plan)

    def used(self) -> None:
        """What else the account runs is not looked at."""


class AccountQuota(NamedTuple):
    """Service Quotas knows it by `service` and `code`."""

    name: str
    service: str
    code: str
    demand: Demand


TABLES = Listing("AWS::DynamoDB::GlobalTable", "dynamodb", "list_tables", "TableNames")
STREAMS = Listing(
    "AWS::KinesisFirehose::DeliveryStream",
    "firehose",
    "list_delivery_streams",
    "DeliveryStreamNames",
    {"Limit": 10_000},
)
VPCS = Listing("AWS::EC2::VPC", "ec2", "describe_vpcs", "Vpcs")
GATEWAYS = Listing("AWS::EC2::InternetGateway", "ec2", "describe_internet_gateways", "InternetGateways")
ENDPOINTS = Listing(
    "AWS::EC2::VPCEndpoint",
    "ec2",
    "describe_vpc_endpoints",
    "VpcEndpoints",
    {"Filters": [{"Name": "vpc-endpoint-type", "Values": ["Gateway"]}]},
)
ADDRESSES = Listing("AWS::EC2::EIP", "ec2", "describe_addresses", "Addresses")
QUOTAS = (
    AccountQuota("Lambda functions at once", "lambda", "L-B99A9384", AtOnce(needs.functions_at_once)),
    AccountQuota("processors of Fargate", "fargate", "L-3032A538", AtOnce(needs.fargate_processors(spot=False))),
    AccountQuota("processors of Fargate Spot", "fargate", "L-36FBB829", AtOnce(needs.fargate_processors(spot=True))),
    AccountQuota("processors of EMR Serverless", "emr-serverless", "L-D05C8A75", AtOnce(needs.spark_processors)),
    AccountQuota("VPCs", "vpc", "L-F678F1CE", VPCS),
    AccountQuota("internet gateways", "vpc", "L-A4707A72", GATEWAYS),
    AccountQuota("gateway endpoints", "vpc", "L-1B52E74A", ENDPOINTS),
    AccountQuota("Elastic IP addresses", "ec2", "L-0263D0A3", ADDRESSES),
    AccountQuota("DynamoDB tables", "dynamodb", "L-F98FE922", TABLES),
    AccountQuota("Firehose streams", "firehose", "L-14BB0BE7", STREAMS),
)
"""`aws service-quotas list-aws-default-service-quotas --service-code SERVICE` lists the codes."""


def check_quotas(plan: DeploymentPlan, owned: Owned) -> Iterator[Check]:
    for quota in QUOTAS:
        needed = quota.demand.needed(plan, owned)
        if needed > 0:
            yield from _check_quota(quota, needed)


def _check_quota(quota: AccountQuota, needed: float) -> Iterator[Check]:
    name = f"quota of {quota.name}"
    return with_refusal(name, lambda: [_check_allowed(name, quota, needed)])


def _check_allowed(name: str, quota: AccountQuota, needed: float) -> Check:
    allowed = _allowed(quota)
    if allowed is None:
        return Check(name=name, found=f"{needed:g} needed; Service Quotas does not know it here")
    used = quota.demand.used()
    in_use = f" of {allowed:,.0f}" if used is None else f", {used} of {allowed:,.0f} in use"
    wanted = needed + (used or 0)
    todo = None if wanted <= allowed else _raise(quota, wanted)
    return Check(name=name, found=f"{needed:g} needed{in_use}", todo=todo)


def _raise(quota: AccountQuota, needed: float) -> str:
    """To AWS's default at least, which an account may be below."""
    value = max(needed, _default(quota) or 0)
    return RAISE.format(service=quota.service, code=quota.code, value=f"{value:.0f}")


def _allowed(quota: AccountQuota) -> float | None:
    """The account's own value, or AWS's default where it has none."""
    own = _known(boto3.client("service-quotas").get_service_quota, quota)
    return _default(quota) if own is None else own


def _default(quota: AccountQuota) -> float | None:
    return _known(boto3.client("service-quotas").get_aws_default_service_quota, quota)


def _known(ask: Callable[..., Any], quota: AccountQuota) -> float | None:
    try:
        return float(ask(ServiceCode=quota.service, QuotaCode=quota.code)["Quota"]["Value"])
    except ClientError as error:
        if error.response["Error"]["Code"] == UNKNOWN:
            return None
        raise
