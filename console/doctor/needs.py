"""What templates need of an account's quotas; docs/operations.md, "What the account needs", has the reckoning."""

from collections.abc import Callable, Mapping
from typing import Any

from console.doctor.plan import DeploymentPlan, PlannedStack

REQUEST_S = 0.1
"""That the API, and its authorizer before it, run for a request: reckoned."""
UNRESERVED = 100
"""So many functions at once AWS asks to leave to those that have nothing set aside."""
SPOT = "FARGATE_SPOT"


def fed_by_queues(plan: DeploymentPlan) -> int:
    """How many functions at once the queues feed at most."""
    sources = plan.resources("AWS::Lambda::EventSourceMapping")
    return sum(int(source["ScalingConfig"]["MaximumConcurrency"]) for source in sources)


def called_by_the_api(plan: DeploymentPlan) -> int:
    """How many the API calls: two for each request."""
    stages = plan.resources("AWS::ApiGatewayV2::Stage")
    rate = sum(float(stage["DefaultRouteSettings"]["ThrottlingRateLimit"]) for stage in stages)
    return round(2 * rate * REQUEST_S)


def set_aside(plan: DeploymentPlan) -> int:
    """How many are kept for the API alone."""
    functions = plan.resources("AWS::Lambda::Function")
    return sum(int(function.get("ReservedConcurrentExecutions", 0)) for function in functions)


def functions_at_once(plan: DeploymentPlan) -> int:
    reserved = set_aside(plan)
    return (
        max(fed_by_queues(plan), UNRESERVED) + reserved if reserved else fed_by_queues(plan) + called_by_the_api(plan)
    )


def fargate_processors(*, spot: bool) -> Callable[[DeploymentPlan], float]:
    """Of the services' tasks, while a deployment runs the new ones beside the old."""

    def needed(plan: DeploymentPlan) -> float:
        services = ((stack, each) for stack in plan.stacks for each in stack.resources("AWS::ECS::Service"))
        return sum(_of_service(stack, service) for stack, service in services if _is_spot(service) is spot)

    return needed


def _of_service(stack: PlannedStack, service: Mapping[str, Any]) -> float:
    task = stack.template["Resources"][service["TaskDefinition"]["Ref"]]["Properties"]
    tasks = _tasks(stack, service) * service["DeploymentConfiguration"]["MaximumPercent"] / 100
    return float(tasks * int(task["Cpu"]) / 1024)


def _tasks(stack: PlannedStack, service: Mapping[str, Any]) -> int:
    """At most, where the service of the stack is scaled: then it says nothing itself."""
    scaled = stack.resources("AWS::ApplicationAutoScaling::ScalableTarget")
    return int(service["DesiredCount"] if "DesiredCount" in service else max(one["MaxCapacity"] for one in scaled))


def _is_spot(service: Mapping[str, Any]) -> bool:
    return any(each["CapacityProvider"] == SPOT for each in service.get("CapacityProviderStrategy", []))


def spark_processors(plan: DeploymentPlan) -> float:
    """Of all applications: each runs one job at a time, beside the others'."""
    applications = plan.resources("AWS::EMRServerless::Application")
    return sum(float(each["MaximumCapacity"]["Cpu"].removesuffix(" vCPU")) for each in applications)
