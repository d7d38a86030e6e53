"""What has to be in the account before anything is deployed: CDK's own stack, ECS's roles, and the domain's certificate."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import boto3
from botocore.exceptions import ClientError

from console.doctor.plan import Bootstrap, DeploymentPlan
from console.doctor.report import Check
from console.doctor.stacks import Owned

BOOTSTRAP = "make bootstrap ACCOUNT={account} REGION={region}"
ANOTHER = 'name one that is good: CONTEXT="certificate_arn=…"'


def check_bootstrap(plan: DeploymentPlan, account: str, region: str) -> Iterator[Check]:
    make = BOOTSTRAP.format(account=account, region=region)
    for needed in sorted({stack.bootstrap for stack in plan.stacks if stack.bootstrap}):
        there = _version(needed)
        if there is None:
            yield Check(name="bootstrap", found=f"CDK has nothing in {region} yet", todo=make)
        else:
            found = f"version {there}, {needed.version} needed"
            yield Check(name="bootstrap", found=found, todo=make if there < needed.version else None)


def _version(needed: Bootstrap) -> int | None:
    try:
        return int(boto3.client("ssm").get_parameter(Name=needed.parameter)["Parameter"]["Value"])
    except ClientError as error:
        if error.response["Error"]["Code"] == "ParameterNotFound":
            return None
        raise


class ServiceRole(NamedTuple):
    """A role that `service` makes for itself with the first resource of `kind` in the account."""

    kind: str
    name: str
    service: str


SERVICE_ROLES = (
    ServiceRole("AWS::ECS::Cluster", "AWSServiceRoleForECS", "ecs.amazonaws.com"),
    ServiceRole(
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "AWSServiceRoleForApplicationAutoScaling_ECSService",
        "ecs.application-autoscaling.amazonaws.com",
    ),
)
"""ECS assumes its role at once, which IAM may not know yet: the first cluster of an account fails now and then.

https://docs.aws.amazon.com/AmazonECS/latest/developerguide/using-service-linked-roles.html
"""


def check_service_roles(plan: DeploymentPlan, owned: Owned) -> Iterator[Check]:
    """Of what is not deployed yet: whoever has a resource has the role."""
    for role in SERVICE_ROLES:
        if any(plan.resources(role.kind)) and not owned.get(role.kind):
            there = _role_exists(role.name)
            make = f"aws iam create-service-linked-role --aws-service-name {role.service}"
            yield Check(
                name=f"role {role.name}", found="there" if there else "not there yet", todo=None if there else make
            )


def _role_exists(name: str) -> bool:
    iam = boto3.client("iam")
    try:
        iam.get_role(RoleName=name)
    except iam.exceptions.NoSuchEntityException:
        return False
    return True


class Domain(NamedTuple):
    name: str
    certificate: str


def domains(plan: DeploymentPlan) -> Iterator[Domain]:
    """API Gateway's own, and CloudFront's."""
    for each in plan.resources("AWS::ApiGatewayV2::DomainName"):
        yield Domain(each["DomainName"], each["DomainNameConfigurations"][0]["CertificateArn"])
    for each in plan.resources("AWS::CloudFront::Distribution"):
        config = each["DistributionConfig"]
        for alias in config.get("Aliases", []):
            yield Domain(alias, config["ViewerCertificate"]["AcmCertificateArn"])


def check_certificates(plan: DeploymentPlan) -> Iterator[Check]:
    acm = boto3.client("acm")
    for domain in sorted(set(domains(plan))):
        name = f"certificate of {domain.name}"
        try:
            there = acm.describe_certificate(CertificateArn=domain.certificate)["Certificate"]
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            yield Check(name=name, found="not in this account and region", todo=ANOTHER)
        else:
            yield Check(name=name, found=there["Status"], todo=_todo(there, domain.name))


def _todo(certificate: Mapping[str, Any], domain: str) -> str | None:
    if certificate["Status"] == "PENDING_VALIDATION":
        options = certificate.get("DomainValidationOptions", [])
        records = [record for each in options if (record := each.get("ResourceRecord"))]
        wanted = ", ".join(f"{each['Name']} {each['Type']} {each['Value']}" for each in records)
        return f"create the DNS record {wanted}" if wanted else "follow the link in the mail to the domain's owner"
    names = certificate.get("SubjectAlternativeNames", [certificate["DomainName"]])
    if certificate["Status"] != "ISSUED" or not any(_covers(name, domain) for name in names):
        return ANOTHER
    return None


def _covers(name: str, domain: str) -> bool:
    """A wildcard stands for one label: https://www.rfc-editor.org/rfc/rfc9525#section-6.3"""
    return domain == name or (name.startswith("*.") and domain.partition(".")[2] == name[2:])
