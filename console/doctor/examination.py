"""What is looked at, and in which order: what a deployment needs of the account, then what is deployed."""

from collections.abc import Iterator
from functools import cache, partial

import boto3

from console import deployment
from console.deployment import Deployment
from console.doctor import account, credentials, deployed, names, parameters, providers, quotas, stacks
from console.doctor.plan import DeploymentPlan
from console.doctor.report import Check, Diagnosis, with_refusal
from console.faults import Trouble
from console.output import progress
from console.send_test import TestDevice


def examine(
    plan: DeploymentPlan | None, stage: str | None, *, try_providers: bool = False, device: TestDevice | None = None
) -> Diagnosis:
    """Without a plan, what is deployed alone."""
    named = plan.stage if plan else deployment.find(stage).stage
    caller = boto3.client("sts").get_caller_identity()
    region = boto3.client("cloudformation").meta.region_name
    checks = [Check(name="credentials", found=caller["Arn"])]
    if plan:
        with progress("looking at the account"):
            checks += _before(plan, caller["Account"], region)
    if here := deployment.of_stage(named):
        checks += _after(here, try_providers=try_providers, device=device)
    else:
        checks.append(Check(name="deployment", found="none yet, so there is no more to look at"))
    return Diagnosis(stage=named, account=caller["Account"], region=region, checks=checks)


def _before(plan: DeploymentPlan, account_id: str, region: str) -> Iterator[Check]:
    """Raises `Trouble` if the AWS settings lead to another account or region than the environment."""
    for stack in plan.stacks:
        if stack.account not in {None, account_id}:
            raise Trouble(f"{stack.name} goes to account {stack.account}: set AWS_PROFILE to one of that account")
        if stack.region not in {None, region}:
            raise Trouble(f"{stack.name} goes to {stack.region}: set AWS_DEFAULT_REGION={stack.region}")
    yield from with_refusal("bootstrap", partial(account.check_bootstrap, plan, account_id, region))
    yield from with_refusal("stacks", partial(stacks.check_stacks, plan))
    owned = cache(partial(stacks.owned, plan))
    yield from with_refusal("roles", lambda: account.check_service_roles(plan, owned()))
    yield from with_refusal("parameters", partial(parameters.check_parameters, plan))
    yield from with_refusal("names", lambda: names.check_names(plan, owned()))
    yield from with_refusal("networks", lambda: names.check_networks(plan, owned()))
    yield from with_refusal("quotas", lambda: quotas.check_quotas(plan, owned()))
    yield from with_refusal("certificate", partial(account.check_certificates, plan))


def _after(here: Deployment, *, try_providers: bool, device: TestDevice | None) -> Iterator[Check]:
    yield from with_refusal("secrets", partial(credentials.check_secrets, here))
    if try_providers:
        yield from with_refusal("providers", partial(providers.check_credentials, here))
    yield from with_refusal("alarms", partial(deployed.check_alarm_receivers, here))
    yield from with_refusal("api", partial(deployed.check_api, here))
    yield from with_refusal("status", partial(deployed.check_status, here))
    if device:
        yield from with_refusal("test push", partial(deployed.check_push, here, device))
