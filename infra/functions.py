"""The Lambda functions: each holds its own room and the layers, and writes to its own log group alone."""

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Duration, IgnoreMode
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import Consumer, Environment, Platform, Size
from infra.findings import accept
from infra.layers import Layers
from infra.permissions import allow
from infra.retention import log_group

ROOMS = Path(__file__).parents[1] / "functions"
_ARCHITECTURES = {Platform.ARM64: lambda_.Architecture.ARM_64, Platform.HOST: lambda_.Architecture.X86_64}


class RoomFunction(lambda_.Function):
    """`handler` is the dotted path into a room, such as `match.handler.handler`; `settings` lack their prefix.

    Outside a VPC, so that it starts quickly and needs no NAT. Code comes from `functions/<room>` as package `<room>`.
    Without SnapStart: it bills each version's memory around the clock (3.95 dollars a month for a gigabyte) to save a
    second that a queue hides, or that a phone's rare and silent registration can wait; and it would freeze open
    connections to the providers. What a queue feeds is bounded by its event source, which leaves its messages waiting;
    what the API calls, by the API's rate and, where the account has enough to set aside, by `reserved`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        handler: str,
        size: Size,
        settings: Mapping[str, str],
        layers: Layers,
        environment: Environment,
        reserved: int | None = None,
        feeds_itself: bool = False,
    ) -> None:
        room = handler.partition(".")[0]
        name = f"{environment.prefix}{construct_id.lower()}"
        role = iam.Role(scope, f"{construct_id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        logs = log_group(scope, f"{construct_id}Log", name=f"/aws/lambda/{name}", environment=environment)
        self.own_role = role
        allow(role, "logs: CreateLogStream PutLogEvents", logs.log_group_arn)
        super().__init__(
            scope,
            construct_id,
            function_name=name,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=_ARCHITECTURES[environment.platform],
            code=_code(room),
            handler=handler,
            layers=layers.all,
            memory_size=size.memory_mb,
            timeout=Duration.seconds(size.timeout_s),
            environment=_variables(room, {"stage": environment.stage, **settings}),
            reserved_concurrent_executions=reserved,
            role=role,
            log_group=logs,
            # Lambda's own segments: docs/operations.md, "Traces", says why nothing adds to them.
            tracing=lambda_.Tracing.ACTIVE if environment.tracing else lambda_.Tracing.DISABLED,
            # Lambda stops what feeds its own queue after about sixteen rounds, unless told that it is meant.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if feeds_itself else None,
        )
        accept(self, "L1", "Python 3.13 everywhere: what is tested is what runs; Lambda supports it until June 2029")
        accept(role, "IAM5[Resource::*]", "X-Ray takes traces for no resource in particular")

    def consume(self, queue: sqs.IQueue, consumer: Consumer) -> None:
        source = event_sources.SqsEventSource(
            queue,
            batch_size=consumer.batch,
            max_batching_window=Duration.seconds(consumer.window_s) if consumer.window_s else None,
            max_concurrency=consumer.concurrency,
            report_batch_item_failures=True,
        )
        self.add_event_source(source)


def _code(room: str) -> lambda_.Code:
    kept = ["*", f"!/{room}/", f"!/{room}/**", "__pycache__", "requirements.*", "Dockerfile"]
    return lambda_.Code.from_asset(str(ROOMS), exclude=kept, ignore_mode=IgnoreMode.GIT)


def _variables(room: str, settings: Mapping[str, str]) -> dict[str, str]:
    named = {f"CLARION_{name.upper()}": value for name, value in settings.items()}
    return {"POWERTOOLS_SERVICE_NAME": room, **named}
