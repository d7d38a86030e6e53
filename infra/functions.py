"""The Lambda functions: each holds its own package and the layers, and writes to its own log group alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from clarion.channels import CHANNELS
from clarion.tables import WITHOUT_TOKEN
from infra import archives
from infra.config import Consumer, EnvironmentConfig, Platform
from infra.data import Data
from infra.findings import accept
from infra.layers import Layers
from infra.options import Size
from infra.permissions import Conditions, allow, allow_key
from infra.queues import Queues
from infra.retention import log_group
from infra.secrets import secret_arn

FUNCTIONS = archives.ROOT / "functions"
BUILT = archives.BUILT / "functions"
LIVE = "live"
_ARCHITECTURES = {Platform.ARM64: lambda_.Architecture.ARM_64, Platform.HOST: lambda_.Architecture.X86_64}


@dataclass(frozen=True)
class Foundation:
    """What the components have in common: where they keep, send and read. `events` is the stream to the lake."""

    environment: EnvironmentConfig
    data: Data
    queues: Queues
    events: firehose.IDeliveryStream
    layers: Layers

    @property
    def settings(self) -> dict[str, str]:
        """Of whoever uses the tables and emits events."""
        prefix = self.environment.prefix
        late_events = self.queues.late_events.queue.queue_url
        return {"table_prefix": prefix, "events_stream": f"{prefix}events", "late_events_queue_url": late_events}

    def allow_events(self, who: iam.IGrantable) -> None:
        """Let it emit events, by either way of `clarion.event_log`."""
        allow(who, "firehose: PutRecordBatch", self.events.delivery_stream_arn)
        allow(who, "sqs: SendMessage", self.queues.late_events.queue.queue_arn)


class ComponentFunction(lambda_.Function):
    """`handler` is the dotted path into a component, such as `match.handler.handler`; `settings` lack their prefix.

    Outside a VPC, so that it starts quickly and needs no NAT. Code comes from `functions/<component>` as package
    `<component>`. Without SnapStart: docs/operations.md says why. What a queue feeds is bounded by its event source, which
    leaves its messages waiting; what the API calls, by the API's rate and, where the account has enough to set aside, by
    `reserved`. Whatever calls it calls `live`, an alias of its newest version: code, layers and variables change at once.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        foundation: Foundation,
        handler: str,
        size: Size,
        settings: Mapping[str, str],
        name: str | None = None,
        reserved: int | None = None,
        feeds_itself: bool = False,
    ) -> None:
        component, environment = handler.partition(".")[0], foundation.environment
        full_name = f"{environment.prefix}{name or construct_id.lower()}"
        role = iam.Role(scope, f"{construct_id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        logs = log_group(scope, f"{construct_id}Log", name=f"/aws/lambda/{full_name}", environment=environment)
        self.own_role = role
        self.foundation = foundation
        allow(role, "logs: CreateLogStream PutLogEvents", logs.log_group_arn)
        super().__init__(
            scope,
            construct_id,
            function_name=full_name,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=_ARCHITECTURES[environment.platform],
            code=lambda_.Code.from_asset(str(code_archive(component))),
            handler=handler,
            layers=foundation.layers.all,
            memory_size=size.memory_mb,
            timeout=Duration.seconds(size.timeout_s),
            environment=_variables(component, {"stage": environment.stage, **settings}),
            reserved_concurrent_executions=reserved,
            role=role,
            log_group=logs,
            logging_format=lambda_.LoggingFormat.JSON,
            system_log_level_v2=_system_log_level(environment),
            # Lambda's own segments: docs/operations.md, "Traces", says why nothing adds to them.
            tracing=lambda_.Tracing.ACTIVE if environment.tracing else lambda_.Tracing.DISABLED,
            # Lambda stops what feeds its own queue after about sixteen rounds, unless it is said to be meant.
            recursive_loop=lambda_.RecursiveLoop.ALLOW if feeds_itself else None,
            current_version_options=lambda_.VersionOptions(description=_replaceable(foundation.data, settings)),
        )
        self._keep_runtime()
        self.live = lambda_.Alias(self, "Live", alias_name=LIVE, version=self.current_version)
        accept(self, "L1", "Python 3.13 everywhere: what is tested is what runs; Lambda supports it until June 2029")
        if environment.tracing:
            accept(role, "IAM5[Resource::*]", "X-Ray takes traces for no resource in particular")

    def _keep_runtime(self) -> None:
        """Leave a version with the runtime that it was published with, until another is.

        By default AWS replaces it, with the SDK that `clarion.aws` reaches into, by no deployment and with no canary. Each
        version has a mode of its own:
        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-lambda-version-runtimepolicy.html
        """
        published = cast("lambda_.CfnVersion", self.current_version.node.default_child)
        published.runtime_policy = lambda_.CfnVersion.RuntimePolicyProperty(update_runtime_on="FunctionUpdate")

    @property
    def live_arn(self) -> str:
        return f"{self.function_arn}:{LIVE}"

    def allow_tables(self, actions: str, *tables: str) -> None:
        allow(self, f"dynamodb: {actions}", *tables)

    def allow_reading_subscriptions(self) -> None:
        """Without their tokens.

        https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/specifying-conditions.html
        """
        conditions: Conditions = {
            "ForAllValues:StringEquals": {"dynamodb:Attributes": list(WITHOUT_TOKEN)},
            "StringEqualsIfExists": {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"},
        }
        allow(self, "dynamodb: BatchGetItem", self.foundation.data.tables.subscriptions, conditions=conditions)

    def allow_sending(self, *queues: sqs.IQueue) -> None:
        if queues:
            allow(self, "sqs: SendMessage", *(queue.queue_arn for queue in queues))

    def allow_secrets(self, *names: str | None) -> None:
        """Those that are there."""
        if present := [secret_arn(self.stack, name) for name in names if name]:
            allow(self, "secretsmanager: GetSecretValue", *present)
            allow_key(self, self.foundation.data.key, "secretsmanager", "Decrypt")

    def consume(self, queue: sqs.IQueue, consumer: Consumer) -> None:
        source = event_sources.SqsEventSource(
            queue,
            batch_size=consumer.batch,
            max_batching_window=Duration.seconds(consumer.window_s) if consumer.window_s else None,
            max_concurrency=consumer.concurrency,
            report_batch_item_failures=True,
        )
        self.live.add_event_source(source)


def app_names(foundation: Foundation) -> dict[str, list[str]]:
    """By channel; a subscription may name no others of either."""
    of_providers, channels = foundation.data.secrets.providers, foundation.environment.channels
    return {channel: [app.name for app in of_providers[CHANNELS[channel].provider]] for channel in channels}


def given[Value](**settings: Value | None) -> dict[str, Value]:
    """Those that have a value: the others are left to the function's own defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def _replaceable(data: Data, settings: Mapping[str, str]) -> str | None:
    """What its settings hold that only the deployment knows: with another, a version has to be published anew.

    With the same, it must not be: Lambda publishes none for a function that is as it was.
    """
    named = {data.lake.bucket_name, data.oversize.bucket_name}
    return " ".join(value for value in settings.values() if value in named) or None


def code_archive(component: str) -> Path:
    return archives.compiled(FUNCTIONS / component, f"{component}/", BUILT / component)


def _system_log_level(environment: EnvironmentConfig) -> lambda_.SystemLogLevel:
    """What Lambda itself logs of an invocation: what went wrong, or each one's start and report as well.

    https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
    """
    return lambda_.SystemLogLevel.INFO if environment.invocation_logs else lambda_.SystemLogLevel.WARN


def _variables(component: str, settings: Mapping[str, str]) -> dict[str, str]:
    named = {f"CLARION_{name.upper()}": value for name, value in settings.items()}
    # There is no plugin of pydantic's: to look for one, it would read the metadata of every installed package.
    return {"POWERTOOLS_SERVICE_NAME": component, "PYDANTIC_DISABLE_PLUGINS": "__all__", **named}
