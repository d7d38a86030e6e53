"""Whoever changes a field of an environment's configuration finds it followed by everything that depends on it.

`CHANGES` has a case for each field. All of them are made at once, in one deployment; those that exclude one another are
made in a second one, `OTHERWISE`. A place is a path into what is deployed (`Deployment.found`), such as
`queues.apns.VisibilityTimeout`, or into what a component reads from its variables, such as `settings.match.concurrency`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template
from aws_lambda_powertools import Logger
from pydantic import BaseModel

from api.networks.walletconnect.settings import DappApiSettings
from api.networks.xmtp.settings import XmtpSettings
from api.networks.zulip.settings import ZulipSettings
from api.settings import ApiSettings, AuthorizerSettings, DirectPushSettings
from clarion.channels import CHANNELS
from clarion.event_log import EventLog
from clarion.events import Event, LimitsLoaded
from clarion.limiter import Limit
from clarion.metrics import metrics_of
from clarion.networks import NETWORKS, STATEMENTS, WALLETCONNECT, XMTP, ZULIP
from clarion.networks.settings import WorkerSettings
from clarion.settings import Settings
from cleanup.handler import CleanupSettings
from dispatch.settings import DispatchSettings
from infra.alarms import LEDGER
from infra.app import add_stacks
from infra.config import EnvironmentConfig, Lasting, Platform
from infra.environments import PROD
from infra.options import Stubs, stub_names
from ingest.settings import IngestSettings
from late_events.handler import LateEventsSettings
from match.report import DecisionLog
from match.settings import MatchSettings
from schedule.handler import ScheduleSettings
from tests.infra.templates import queue_of, resolved
from tests.toy import TOY
from walletconnect.worker import WalletConnectWorkerSettings
from xmtp.worker import XmtpWorkerSettings

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS: Mapping[str, type[Settings]] = {
    "match": MatchSettings,
    "pages": MatchSettings,
    **dict.fromkeys(map(str, CHANNELS), DispatchSettings),
    "cleanup": CleanupSettings,
    "deliveries": Settings,
    "late-events": LateEventsSettings,
    "schedule": ScheduleSettings,
    "api": ApiSettings,
    "authorizer": AuthorizerSettings,
    f"{TOY}-worker": WorkerSettings,
    f"{XMTP}-router": XmtpSettings,
    f"{XMTP}-worker": XmtpWorkerSettings,
    f"{ZULIP}-router": ZulipSettings,
    f"{WALLETCONNECT}-router": DappApiSettings,
    f"{WALLETCONNECT}-worker": WalletConnectWorkerSettings,
}
FOUND_BY = {
    "functions": ("AWS::Lambda::Function", "FunctionName"),
    "queues": ("AWS::SQS::Queue", "QueueName"),
    "alarms": ("AWS::CloudWatch::Alarm", "AlarmName"),
    "secrets": ("AWS::SecretsManager::Secret", "Name"),
    "applications": ("AWS::EMRServerless::Application", "Name"),
    "schedules": ("AWS::Scheduler::Schedule", "Name"),
}
"""Kinds of resources that have names."""
ALONE = {
    "stage": "AWS::ApiGatewayV2::Stage",
    "api": "AWS::ApiGatewayV2::Api",
    "domain": "AWS::ApiGatewayV2::DomainName",
    "distribution": "AWS::CloudFront::Distribution",
    "firewall": "AWS::WAFv2::WebACL",
    "stream": "AWS::KinesisFirehose::DeliveryStream",
    "task": "AWS::ECS::TaskDefinition",
    "cluster": "AWS::ECS::Cluster",
    "service": "AWS::ECS::Service",
    "subscription": "AWS::SNS::Subscription",
    "dashboard": "AWS::CloudWatch::Dashboard",
    "canary": "AWS::CodeDeploy::Application",
}
"""Kinds of which a deployment has one at most."""
DATA = ("AWS::S3::Bucket", "AWS::DynamoDB::GlobalTable", "AWS::SecretsManager::Secret", "AWS::KMS::Key")
CERTIFICATE = "arn:aws:acm:{}:111111111111:certificate/of-the-domain"
JWKS = "https://issuer.example.org"
HASH_LETTERS = 8
"""That CDK ends a resource's name in the template with."""
ABSENT = "absent"


class Change(NamedTuple):
    """What a field is set to, and what is then found in which places."""

    value: object
    places: Mapping[str, object]


def same(value: object, *places: str) -> Change:
    """The value itself is found in each of `places`."""
    return Change(value, dict.fromkeys(places, value))


def alarms(value: float, *names: str) -> Change:
    return same(value, *(f"alarms.{name}.Threshold" for name in names))


def dispatch(place: str) -> tuple[str, ...]:
    return tuple(f"settings.{channel}.{place}" for channel in CHANNELS)


def matching(place: str) -> tuple[str, ...]:
    return tuple(f"settings.{function}.{place}" for function in ("match", "pages"))


def throttled(limit: str) -> tuple[str, str]:
    """Of all clients, and of a route for servers."""
    return f"stage.DefaultRouteSettings.{limit}", f"stage.RouteSettings.POST /v1/toys/parts.{limit}"


def consumer(field: str, functions: Sequence[str], queues: Sequence[str], **values: int) -> dict[str, Change]:
    """The fields of the configuration `field` of functions that `queues` feed."""
    sizes = size(f"{field}.size", functions, values["memory_mb"], values["timeout_s"])
    visibility = 6 * values["timeout_s"] + values["window_s"]
    timeout = {
        **sizes[f"{field}.size.timeout_s"].places,
        **{f"queues.{queue}.VisibilityTimeout": visibility for queue in queues},
    }
    sources = [f"sources.{queue}" for queue in queues]
    received = [
        *(f"queues.{queue}.RedrivePolicy.maxReceiveCount" for queue in queues),
        *(f"settings.{function}.max_receives" for function in functions if function not in WITHOUT_RECEIVES),
    ]
    counted = ("settings.match.concurrency",) if field == "match" else ()
    return {
        **sizes,
        f"{field}.size.timeout_s": Change(values["timeout_s"], timeout),
        f"{field}.concurrency": same(
            values["concurrency"], *(f"{source}.ScalingConfig.MaximumConcurrency" for source in sources), *counted
        ),
        f"{field}.receives": same(values["receives"], *received),
        f"{field}.batch": same(values["batch"], *(f"{source}.BatchSize" for source in sources)),
        f"{field}.window_s": same(
            values["window_s"], *(f"{source}.MaximumBatchingWindowInSeconds" for source in sources)
        ),
    }


def size(field: str, functions: Sequence[str], memory_mb: int, timeout_s: int) -> dict[str, Change]:
    return {
        f"{field}.memory_mb": same(memory_mb, *(f"functions.{each}.MemorySize" for each in functions)),
        f"{field}.timeout_s": same(timeout_s, *(f"functions.{each}.Timeout" for each in functions)),
    }


CALLED_BY_CLIENTS = {"api", "authorizer", *(f"{name}-router" for name in (XMTP, TOY, ZULIP, WALLETCONNECT))}
"""Functions whose errors `api-failing` counts."""
WITHOUT_RECEIVES = {"cleanup", "deliveries", "late-events"}
"""Functions that leave dead letters to their queue."""
COMMON = [channel for channel in CHANNELS if channel != "voip"]
"""The channels without a consumer of their own."""
ALLOWANCE = {
    "subscriptions_per_client": 5,
    "rules_per_subscription": 4_000,
    "rules_per_request": 3_000,
    "rules_per_page": 2_000,
    "body_bytes": 1_000_000,
    "requests_per_ten_seconds": 30,
    "rules_per_minute": 9_000,
    "looks_per_minute": 7,
}
SERVERS = {"server_policy": "open", "devices_per_server": 31, "pushes_per_minute": 32, "realms_per_server": 33}
FOLLOWING = {
    "first_replay": "handle",
    "initial_replay_seconds": 11.5,
    "seen_limit": 1_000_000,
    "outbox_bytes": 2_000_000,
    "second_look_bytes": 3_000_000,
    "standby_bytes": 3_500_000,
    "rule_lag_seconds": 6.5,
    "stream_poll_seconds": 0.75,
    "lease_seconds": 9.5,
    "answer_seconds": 21.5,
    "replay_seconds": 31.5,
    "whole_replay_seconds": 1_801.5,
    "absent_seconds": 3_601.5,
}
BUDGET = {"message_bytes": 4_000_000, "bytes_per_second": 5_000_000}
NODES = {
    STATEMENTS: ["wss://one.example/", "wss://two.example/", "wss://three.example/"],
    XMTP: ["https://one.example/", "https://two.example/"],
    WALLETCONNECT: ["wss://relay.example/"],
}
OPTIONS = {
    "domain": "push.example.org",
    "relay_url": "https://relay.example",
    "relay_project_id": "12" * 16,
    "key_servers": ["keys.example.org"],
    "private_key_servers": [],
}
THRESHOLDS = {
    "ingest_lag_ms": alarms(31_001, "ingest-lagging"),
    "rules_behind_ms": alarms(61_001, "rules-behind"),
    "envelope_age_s": alarms(61, "queue-old-envelopes", "queue-old-pages"),
    "push_age_s": alarms(301, "queue-old-apns", "queue-old-webpush"),
    "call_age_s": alarms(31, "queue-old-voip", "queue-old-fcm"),
    "held_age_s": alarms(1_801, *(f"queue-old-{each}-held" for each in COMMON)),
    "command_age_s": alarms(302, f"queue-old-{TOY}-commands"),
    "cleanup_age_s": alarms(3_601, "queue-old-cleanup"),
    "deliveries_age_s": alarms(3_602, "queue-old-deliveries"),
    "delivery_p99_ms": alarms(10_001, "deliveries-slow"),
    "bad_signatures": alarms(101, "signatures-failing"),
    "node_faults": alarms(5, *(f"node-faults-{name}" for name in (STATEMENTS, XMTP, WALLETCONNECT))),
    "failed_envelopes": alarms(11, "envelopes-failing"),
    "delayed_pushes": alarms(12, "pushes-delayed"),
    "in_flight": alarms(60_001, *(f"queue-in-flight-{each}" for each in COMMON)),
    "stale_pushes": alarms(6, "pushes-stale"),
    "refused_pushes": alarms(13, "pushes-refused"),
    "dead_tokens_an_hour": alarms(102, "dead-tokens"),
    "function_errors": alarms(
        4,
        *(f"function-failing-{each}" for each in SETTINGS if each not in CALLED_BY_CLIENTS),
    ),
    "api_errors": alarms(7, "api-failing"),
    "api_p99_ms": alarms(3_001, "api-slow"),
    "lake_delay_s": alarms(901, "lake-late"),
    "above_ledger": Change(2.5, {"alarms.spend-above-ledger.Threshold": LEDGER * 2.5}),
    "pipeline_silence_h": same(31, "alarms.pipeline-silent.EvaluationPeriods"),
}
LIMIT = {"count": 40, "window_seconds": 90, "cooldown_seconds": 180}

CHANGES: Mapping[str, Change] = {
    "stage": Change(
        "blue",
        {
            "settings.*.stage": "blue",
            "settings.?.table_prefix": "clarion-blue-",
            "settings.?.events_stream": "clarion-blue-events",
            "jobs.Retire.CLARION_TABLE_PREFIX": "clarion-blue-",
            "jobs.Retire.CLARION_EVENTS_STREAM": "clarion-blue-events",
            "alarms.ingest-lagging.Dimensions.stage": "blue",
            "alarms.pushes-stale.Dimensions.stage": "blue",
            "stream.DeliveryStreamName": "clarion-blue-events",
            "cluster.ClusterName": "clarion-blue",
            "stacks.*.tags": {"clarion:stage": "blue"},
        },
    ),
    "region": Change("eu-central-1", {"stacks.*.region": "eu-central-1", "jobs.*.AWS_DEFAULT_REGION": "eu-central-1"}),
    "zones": same(["euc1-az1", "euc1-az2"], "zones"),
    "data": Change(
        Lasting.DISCARD, {**{f"deletion.{kind}": ["Delete"] for kind in DATA}, "stacks.data.protected": False}
    ),
    "assets_bucket": same("assets", "functions.*.Code.S3Bucket", "entry_bucket"),
    "tls_only": Change(False, {"tls_policies": 0}),
    "networks": Change(
        # The alarm on failed requests takes ten metrics: so not all networks at once.
        [STATEMENTS, TOY, XMTP, WALLETCONNECT],
        {
            "settings.api.networks": [STATEMENTS, TOY, XMTP, WALLETCONNECT],
            "settings.ingest.networks": [STATEMENTS, XMTP, WALLETCONNECT],
            "settings.xmtp-router.network": XMTP,
            "settings.xmtp-worker.network": XMTP,
            "settings.toy-worker.network": TOY,
            "settings.walletconnect-router.network": WALLETCONNECT,
            "settings.walletconnect-worker.network": WALLETCONNECT,
            "routes.POST /v1/toys": True,
        },
    ),
    "channels": Change(
        list(map(str, CHANNELS)), {f"queues.{each}.QueueName": f"clarion-blue-{each}" for each in ("webpush", "webhook")}
    ),
    "options": Change(
        {WALLETCONNECT: OPTIONS},
        {
            "settings.walletconnect-router.options": OPTIONS,
            "settings.walletconnect-worker.options": OPTIONS,
            "settings.ingest.options.walletconnect": OPTIONS,
        },
    ),
    "webhook_url": same("https://hooks.example.org/", "settings.webhook.webhook_url"),
    "apps.0.name": same("messenger", *dispatch("app_name")),
    "apps.0.alert_title": same("Messenger", *dispatch("alert_title"), "settings.api.direct_push.alert_title"),
    "apps.0.bundle_id": same("org.messenger", *dispatch("bundle_id"), "settings.api.direct_push.bundle_id"),
    "apps.0.apns_sandbox": Change(
        True,
        {
            **{f"settings.{each}.sandbox_secret_id": "clarion-blue-apns-sandbox" for each in ("apns", "voip")},
            "settings.api.direct_push.apns_sandbox_secret_id": "clarion-blue-apns-sandbox",
            "secrets.apns-sandbox.Name": "clarion-blue-apns-sandbox",
        },
    ),
    "apps.1.own_messages": same("deliver", "settings.match.own_messages.robot"),
    "apps.1.name": Change(
        "robot",
        {
            **{f"settings.{each}.apps.0.name": "robot" for each in ("apns", "voip", "fcm")},
            "secrets.fcm-robot.Name": "clarion-blue-fcm-robot",
        },
    ),
    "apps.1.alert_title": same("Robot", *(f"settings.{each}.apps.0.alert_title" for each in ("apns", "voip", "fcm"))),
    "apps.1.bundle_id": same("org.robot", "settings.apns.apps.0.bundle_id", "settings.voip.apps.0.bundle_id"),
    "apps.1.providers": Change(
        ["apns", "fcm"],
        {
            **{f"settings.api.apps.{each}": ["messenger", "robot"] for each in ("apns", "voip", "fcm")},
            "settings.api.apps.webpush": ["messenger"],
        },
    ),
    **consumer(
        "match", ["match"], ["envelopes"],
        memory_mb=2_001, timeout_s=31, concurrency=17, receives=7, batch=100, window_s=1,
    ),
    **consumer(
        "pages", ["pages"], ["pages"],
        memory_mb=2_002, timeout_s=29, concurrency=16, receives=6, batch=99, window_s=7,
    ),
    **consumer(
        "dispatch", COMMON, COMMON,
        memory_mb=601, timeout_s=32, concurrency=18, receives=121, batch=101, window_s=2,
    ),
    **consumer(
        "consumers.voip", ["voip"], ["voip"],
        memory_mb=602, timeout_s=33, concurrency=19, receives=9, batch=102, window_s=3,
    ),
    **consumer(
        "commands", [f"{TOY}-worker"], [f"{TOY}-commands"],
        memory_mb=603, timeout_s=34, concurrency=21, receives=122, batch=103, window_s=4,
    ),
    **consumer(
        "cleanup", ["cleanup"], ["cleanup"],
        memory_mb=604, timeout_s=35, concurrency=22, receives=101, batch=104, window_s=5,
    ),
    **consumer(
        "deliveries", ["deliveries"], ["deliveries"],
        memory_mb=605, timeout_s=36, concurrency=23, receives=102, batch=105, window_s=6,
    ),
    **consumer(
        "late_events", ["late-events"], ["late-events"],
        memory_mb=606, timeout_s=37, concurrency=24, receives=103, batch=106, window_s=7,
    ),
    **size("schedule", ["schedule"], memory_mb=1_800, timeout_s=240),
    **{f"matching.limits.statements.{name}": same(value, *matching(f"limits.statements.{name}"))
       for name, value in LIMIT.items()},
    "matching.subscription_cap": same(200, *matching("subscription_cap")),
    "matching.subscription_cap_seconds": same(61, *matching("subscription_cap_seconds")),
    "matching.fan_out_page": same(100, *matching("fan_out_page")),
    **size("api.size", ["api", f"{TOY}-router"], 1_025, 28),
    **size("api.authorizer", ["authorizer"], 513, 6),
    "api.rate": same(201, *throttled("ThrottlingRateLimit")),
    "api.burst": same(401, *throttled("ThrottlingBurstLimit")),
    "api.open_rate": same(51, "stage.RouteSettings.$default.ThrottlingRateLimit"),
    "api.open_burst": same(102, "stage.RouteSettings.$default.ThrottlingBurstLimit"),
    "api.reserved": same(
        150, *(f"functions.{each}.ReservedConcurrentExecutions" for each in ("api", "authorizer", f"{TOY}-router"))
    ),
    "api.origins": Change(
        ["https://app.example.org"],
        {"api.CorsConfiguration.AllowOrigins": ["https://app.example.org"], "routes.OPTIONS /{proxy+}": True},
    ),
    "api.serve_docs": Change(True, {"settings.api.serve_docs": True, "routes.GET /docs": True}),
    **{f"api.allowance.{name}": same(value, f"settings.api.{name}") for name, value in ALLOWANCE.items()},
    "api.pushes_per_minute": same(7, "settings.api.direct_push.pushes_per_minute"),
    "api.pushes_per_token_per_minute": same(6, "settings.api.direct_push.pushes_per_token_per_minute"),
    "api.apns_environment": same("sandbox", "settings.xmtp-router.environment"),
    "api.token_proof": same("always", "settings.api.token_proof", "settings.xmtp-router.token_proof"),
    "api.jwt_issuer": same("another-issuer", "settings.authorizer.jwt_issuer"),
    "api.jwt_audience": same("pushes", "settings.authorizer.jwt_audience"),
    "api.token_lifetime_seconds": same(3_600, "settings.authorizer.token_lifetime_seconds"),
    "api.login_domain": Change(
        "login.example.org",
        {
            "settings.api.login_domain": "login.example.org",
            "settings.authorizer.login_domain": "login.example.org",
            "secrets.login.Name": "clarion-blue-login",
        },
    ),
    "api.issuers.0.issuer": same(JWKS, "settings.authorizer.issuers.0.issuer"),
    "api.issuers.0.audience": same("ours", "settings.authorizer.issuers.0.audience"),
    "api.issuers.0.algorithms": same(["ES256"], "settings.authorizer.issuers.0.algorithms"),
    "api.issuers.0.jwks_url": same(f"{JWKS}/keys.json", "settings.authorizer.issuers.0.jwks_url"),
    "api.domain": same("push.example.org", "domain.DomainName"),
    "api.certificate_arn": Change(
        CERTIFICATE.format("eu-central-1"),
        {"domain.DomainNameConfigurations.0.CertificateArn": CERTIFICATE.format("eu-central-1")},
    ),
    "api.per_address": Change(None, {"firewall": ABSENT, "distribution": ABSENT}),
    "ingest.nodes": Change(
        NODES,
        {
            **{f"settings.ingest.nodes.{name}": urls for name, urls in NODES.items()},
            **{f"alarms.nodes-missing-{name}.Threshold": len(urls) for name, urls in NODES.items()},
        },
    ),
    "ingest.tasks": same(3, "service.DesiredCount"),
    "ingest.cpu": Change(1_024, {"task.Cpu": "1024"}),
    "ingest.spot": Change(True, {"service.CapacityProviderStrategy.0.CapacityProvider": "FARGATE_SPOT"}),
    "ingest.memory_mb": Change(2_048, {"task.Memory": "2048"}),
    **{f"ingest.following.{name}": same(value, f"settings.ingest.{name}") for name, value in FOLLOWING.items()},
    **{f"ingest.following.node_budgets.xmtp.{name}": same(value, f"settings.ingest.node_budgets.xmtp.{name}")
       for name, value in BUDGET.items()},
    "pipeline.release": same("emr-spark-8.2.0", "applications.*.ReleaseLabel"),
    "pipeline.hour": Change(5, {"schedules.daily.ScheduleExpression": "cron(0 5 * * ? *)"}),
    "pipeline.workers": Change(
        6,
        {
            **{f"applications.{name}.MaximumCapacity.{part}": value
               for name in ("daily", "repairs") for part, value in (("Cpu", "24 vCPU"), ("Memory", "96 GB"))},
            **{f"jobs.{job}.instances": "5" for job in ("Daily", "Replay", "Retire")},
        },
    ),
    "pipeline.timeout_minutes": same(120, "daily.ExecutionTimeoutMinutes"),
    "pipeline.watch_minutes": Change(
        8, {"schedules.watch.ScheduleExpression": "rate(8 minutes)", "alarms.watch-silent.EvaluationPeriods": 32}
    ),
    "push_services": same(["push.example.org"], "settings.api.push_services", "settings.webpush.push_services"),
    **{f"providers.{name}": same(
        f"https://{name.replace('_', '-')}.example", *dispatch(name),
        *([f"settings.api.direct_push.{name}"] if name in DirectPushSettings.model_fields else ()),
    ) for name in stub_names()},
    "log_days": same(90, "logs.*.RetentionInDays"),
    "lake_days": same(60, "expires.LakeBucket"),
    "lake_buffer_s": same(120, "stream.ExtendedS3DestinationConfiguration.BufferingHints.IntervalInSeconds"),
    "lake_zipped": Change(
        False,
        {
            "stream.ExtendedS3DestinationConfiguration.CompressionFormat": ABSENT,
            "stream.ExtendedS3DestinationConfiguration.FileExtension": ".jsonl",
        },
    ),
    "tracing": Change(True, {"functions.*.TracingConfig.Mode": "Active"}),
    "invocation_logs": Change(True, {"functions.*.LoggingConfig.SystemLogLevel": "INFO"}),
    "alarm_email": same("others@example.org", "subscription.Endpoint"),
    **{f"thresholds.{name}": change for name, change in THRESHOLDS.items()},
}  # fmt: skip

OTHERWISE: Mapping[str, Change] = {
    "account": Change("222222222222", {"stacks.*.account": "222222222222"}),
    "networks": Change(
        [STATEMENTS, ZULIP], {"settings.api.networks": [STATEMENTS, ZULIP], "settings.zulip-router.network": ZULIP}
    ),
    **{f"api.servers.{name}": same(value, f"settings.zulip-router.{name}") for name, value in SERVERS.items()},
    "api.pushes_per_token_per_minute": same(6, f"settings.{ZULIP}-router.pushes_per_token_per_minute"),
    "platform": Change(Platform.HOST, {"functions.*.Architectures": ["x86_64"]}),
    "ingest": Change(None, {"service": ABSENT, "task": ABSENT, "alarms.nodes-missing-statements": ABSENT}),
    "pipeline": Change(None, {"stacks.pipeline": ABSENT, "schedules": {}}),
    "monitored": Change(False, {"alarms": {}, "dashboard": ABSENT, "subscription": ABSENT}),
    "canary": Change(False, {"canary": ABSENT}),
    "tls_only": Change(False, {"tls_policies": 0}),
    "log_days": Change(365, {"logs.*.RetentionInDays": 365, "expires.LakeEdgeLogs": 365}),
    "api.direct_push": Change(False, {"settings.api.direct_push": None}),
    "api.jwt_issuer": Change(None, {"settings.authorizer.jwt_secret_id": None, "secrets.jwt": ABSENT}),
    "api.jwt_audience": Change(None, {"settings.authorizer.jwt_audience": None}),
    "api.login_domain": same("login.example.org", "settings.authorizer.login_domain"),
    "api.domain": Change("api.example.org", {"distribution.DistributionConfig.Aliases": ["api.example.org"]}),
    "api.certificate_arn": Change(
        CERTIFICATE.format("us-east-1"),
        {"distribution.DistributionConfig.ViewerCertificate.AcmCertificateArn": CERTIFICATE.format("us-east-1")},
    ),
    "api.per_address.requests_per_minute": same(600, "firewall.Rules.0.Statement.RateBasedStatement.Limit"),
    "api.per_address.server_requests_per_minute": same(600, "firewall.Rules.1.Statement.RateBasedStatement.Limit"),
    "api.per_address.around": Change(True, {"domain.DomainName": "api.example.org"}),
}


class Deployment:
    """What an environment is deployed as, by names without the deployment's prefix."""

    def __init__(self, environment: EnvironmentConfig) -> None:
        app = App(context={"aws:cdk:disable-asset-staging": True})
        add_stacks(app, environment)
        self._prefix = environment.prefix
        stacks = [stack for stack in app.node.children if isinstance(stack, Stack)]
        self._stacks = {stack.stack_name.removeprefix(self._prefix): stack for stack in stacks}
        self._templates = {name: Template.from_stack(stack).to_json() for name, stack in self._stacks.items()}
        self._resources = [
            (logical_id, resource)
            for template in self._templates.values()
            for logical_id, resource in template["Resources"].items()
        ]
        self.components = dict(self._settings())
        self.found = self._found()

    def _found(self) -> dict[str, Any]:
        named = {place: self._named(*by) for place, by in FOUND_BY.items()}
        for alarm in named["alarms"].values():
            alarm["Dimensions"] = {each["Name"]: each["Value"] for each in alarm.get("Dimensions", [])}
        alone = {place: each for place, kind in ALONE.items() for each in self._of(kind)}
        return {
            **named,
            **alone,
            **self._kept(),
            **self._jobs(),
            "stacks": {
                name: {
                    "account": stack.account,
                    "region": stack.region,
                    "protected": bool(stack.termination_protection),
                    "tags": stack.tags.tag_values(),
                }
                for name, stack in self._stacks.items()
            },
            "zones": [subnet.get("AvailabilityZoneId") for subnet in self._of("AWS::EC2::Subnet")],
            "sources": self._sources(),
            "routes": {route["RouteKey"]: True for route in self._of("AWS::ApiGatewayV2::Route")},
            "tls_policies": json.dumps(self._templates).count("aws:SecureTransport"),
            "settings": {name: _plain(settings) for name, settings in self.components.items()},
        }

    def _settings(self) -> Iterator[tuple[str, Settings]]:
        """As each component reads them."""
        functions = self._named(*FOUND_BY["functions"])
        for name, kind in SETTINGS.items():
            if name in functions:
                variables = functions[name]["Environment"]["Variables"]
                yield name, kind.from_environment({key: resolved(value) for key, value in variables.items()})
        for task in self._of("AWS::ECS::TaskDefinition"):
            variables = {
                each["Name"]: resolved(each["Value"]) for each in task["ContainerDefinitions"][0]["Environment"]
            }
            yield "ingest", IngestSettings.from_environment(variables)

    def _of(self, kind: str) -> list[dict[str, Any]]:
        return [resource.get("Properties", {}) for _, resource in self._resources if resource["Type"] == kind]

    def _named(self, kind: str, attribute: str) -> dict[str, dict[str, Any]]:
        return {each[attribute].removeprefix(self._prefix): each for each in self._of(kind)}

    def _sources(self) -> dict[str, dict[str, Any]]:
        """What feeds the functions, by the queue."""
        resources = dict(self._resources)
        sources = self._of("AWS::Lambda::EventSourceMapping")
        return {queue_of(each, resources).removeprefix(self._prefix): each for each in sources}

    def _kept(self) -> dict[str, Any]:
        """For how long data and logs are kept, and whether beyond their stack."""
        expires = {
            logical_id[:-HASH_LETTERS]: rule["ExpirationInDays"]
            for logical_id, resource in self._resources
            if resource["Type"] == "AWS::S3::Bucket"
            for rule in resource["Properties"]["LifecycleConfiguration"]["Rules"]
            if "ExpirationInDays" in rule and "Prefix" not in rule
        }
        return {
            "deletion": {
                kind: sorted({each["DeletionPolicy"] for _, each in self._resources if each["Type"] == kind})
                for kind in DATA
            },
            "logs": {each["LogGroupName"]: each for each in self._of("AWS::Logs::LogGroup")},
            "expires": expires,
        }

    def _jobs(self) -> dict[str, Any]:
        """The pipeline's: what Spark is given for each, and what the schedule starts."""
        if "pipeline" not in self._templates:
            return {}
        outputs = self._templates["pipeline"]["Outputs"]
        parameters = {
            name.removesuffix("Parameters"): resolved(output["Value"])
            for name, output in outputs.items()
            if name.endswith("Parameters")
        }
        schedule = self._named(*FOUND_BY["schedules"])["daily"]
        daily = json.loads(resolved(schedule["Target"]["Input"]))
        return {
            "jobs": {job: dict(re.findall(r"--conf \S*?(\w+)=(\S+)", text)) for job, text in parameters.items()},
            "daily": daily,
            "entry_bucket": re.findall(r"s3://([^/]+)/", json.dumps(outputs["EntryPoint"]))[0],
        }


def _plain(value: Any) -> Any:
    """Models as JSON; sets sorted."""
    match value:
        case BaseModel():
            return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case set() | frozenset():
            return sorted(map(_plain, value))
        case list() | tuple():
            return [_plain(each) for each in value]
        case None | bool() | int() | float():
            return value
    return str(value)


def at(found: Any, place: str) -> Any:
    """What is found in a place. `*` stands for each, and `?` for each that has the rest of it; their values have to agree."""
    name, _, rest = place.partition(".")
    match found:
        case dict() if name in {"*", "?"}:
            return _agreed([at(each, rest) for each in found.values()], all_have_it=name == "*")
        case dict() if place in found:
            return found[place]
        case dict() if name in found:
            return at(found[name], rest)
        case list() if name.isdigit() and int(name) < len(found):
            return at(found[int(name)], rest)
    return found if not place else ABSENT


def _agreed(values: Sequence[Any], *, all_have_it: bool) -> Any:
    counted = values if all_have_it else [value for value in values if value not in (ABSENT, None)]
    first = counted[0] if counted else ABSENT
    return first if all(value == first for value in counted) else counted


def changed(changes: Mapping[str, Change]) -> EnvironmentConfig:
    """Production with these fields set."""
    environment = _mutable(BASE.model_dump())
    for path, change in changes.items():
        _set(environment, path.split("."), change.value)
    return EnvironmentConfig.model_validate(environment)


def _mutable(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _mutable(each) for key, each in value.items()}
        case tuple():
            return [_mutable(each) for each in value]
    return value


def _set(into: Any, path: Sequence[str], value: object) -> None:
    name, *rest = path
    key: Any = int(name) if isinstance(into, list) else name
    if not rest:
        into[key] = value
        return
    if isinstance(into, list) and key == len(into):
        into.append({})
    elif isinstance(into, dict) and into.get(key) is None:
        into[key] = {}
    _set(into[key], rest, value)


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The paths of all that can be set; `*` stands for an element of a list or of a mapping."""
    for name, field in model.model_fields.items():
        inner = list(_models(field.annotation))
        if not inner:
            yield f"{prefix}{name}"
        for each, contained in inner:
            yield from fields(each, f"{prefix}{name}.{'*.' if contained else ''}")
    if model is Stubs:
        yield from (f"{prefix}{name}" for name in stub_names() if name not in model.model_fields)


def _models(annotation: Any, *, contained: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """The models in a type, and whether it holds any number of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, contained
    inside = contained or get_origin(annotation) in {tuple, dict, Mapping}
    for each in get_args(annotation):
        yield from _models(each, contained=inside)


BASE = EnvironmentConfig.model_validate(
    {
        **dict(PROD),
        "ingest": {**dict(PROD.ingest or {}), "nodes": {STATEMENTS: ["wss://one.example"]}},
        "alarm_email": "operators@example.org",
    }
)


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    """With all of `CHANGES`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(NETWORKS, TOY, "tests.toy")
        return Deployment(changed(CHANGES))


@pytest.fixture(scope="module")
def deployed_otherwise() -> Deployment:
    """With all of `OTHERWISE`."""
    return Deployment(changed(OTHERWISE))


ELSEWHERE = {"ntf.tasks", "ntf.most_tasks", "ntf.cpu", "ntf.memory_mb"}
"""In `tests/infra/test_ntf.py`, of an environment with SimpleX."""


def test_every_field_has_a_case() -> None:
    cases = {*CHANGES, *OTHERWISE, *ELSEWHERE}
    assert [field for field in fields(EnvironmentConfig) if not any(fnmatchcase(case, field) for case in cases)] == []


@pytest.mark.parametrize("changes", [CHANGES, OTHERWISE], ids=["changes", "otherwise"])
def test_a_case_sets_another_value_than_production(changes: Mapping[str, Change]) -> None:
    production = _mutable(BASE.model_dump())
    assert [field for field, change in changes.items() if at(production, field) == change.value] == []


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_is_followed(deployed: Deployment, deployed_otherwise: Deployment, field: str) -> None:
    check(CHANGES[field], deployed, deployed_otherwise, changed_in_both=field in OTHERWISE)


@pytest.mark.parametrize("field", OTHERWISE)
def test_a_change_that_excludes_others_is_followed(
    deployed: Deployment, deployed_otherwise: Deployment, field: str
) -> None:
    check(OTHERWISE[field], deployed_otherwise, deployed, changed_in_both=field in CHANGES)


def check(change: Change, deployed: Deployment, other: Deployment, *, changed_in_both: bool) -> None:
    """Each place has what is expected, which it has not in the deployment that leaves the field unchanged."""
    expected = dict(change.places)
    assert {place: at(deployed.found, place) for place in expected} == expected
    unchanged = [place for place, value in expected.items() if at(other.found, place) == value]
    assert expected
    assert changed_in_both or unchanged == []


class CollectedEvents(EventLog):
    """Keeps what is to be recorded."""

    def __init__(self) -> None:
        self.added: list[Event] = []

    def add(self, event: Event) -> None:
        self.added.append(event)


def test_match_decides_and_the_lake_records_by_the_configured_limits(deployed: Deployment) -> None:
    settings = deployed.components["match"]
    assert isinstance(settings, MatchSettings)
    events = CollectedEvents()
    log = DecisionLog(events=events, metrics=metrics_of("match", settings.stage), logger=Logger(service="match"))

    log.limits(STATEMENTS, settings.limit(STATEMENTS), settings.cap, at=1)

    assert settings.limit(STATEMENTS) == Limit(40, 90_000, 180_000)
    (event,) = events.added
    assert event == LimitsLoaded(
        network=STATEMENTS, at=1, count=40, window=90_000, cooldown=180_000, cap=200, cap_window=61_000
    )


def test_the_api_takes_the_apps_that_each_channel_reaches(deployed: Deployment) -> None:
    api = deployed.components["api"]
    assert isinstance(api, ApiSettings)
    reached = {
        settings.channel: {app.name for app in settings.all_apps}
        for settings in deployed.components.values()
        if isinstance(settings, DispatchSettings)
    }
    assert api.apps == reached


DOCUMENTED = re.compile(rf"`((?:{'|'.join(EnvironmentConfig.model_fields)})(?:\.(?!py`)[a-z_]+)+)`")


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_a_documented_field_exists(page: Path) -> None:
    known = {field.replace(".*", "") for field in fields(EnvironmentConfig)}
    named = set(DOCUMENTED.findall(page.read_text()))
    assert {name for name in named if not any(f"{field}.".startswith(f"{name}.") for field in known)} == set()
