"""The Spark pipeline in a stack of its own, beside the one that it reads and repairs.

Two applications of EMR Serverless, which cost nothing while no job runs: one for the daily run, one for `replay` and
`retire`, which an operator starts; and a third if losses are watched for. They lie in ingest's public subnets, where no
NAT gateway is needed: the daily run asks CloudWatch how much came, the others have to reach SQS and Firehose, and
without a network EMR reaches S3 but none of these. Each runs one job at a time, so that no two of them share its
capacity.
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/considerations.html
"""

from dataclasses import replace

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as events_targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.base import EnvironmentStack
from infra.catalog import Catalog
from infra.config import EnvironmentConfig, Pipeline
from infra.data import Data
from infra.findings import accept
from infra.job_schedule import JobSchedule, JobStart
from infra.jobs import (
    DISK_GIGABYTES,
    GIGABYTES,
    VCPUS,
    Code,
    DailyRole,
    JobBase,
    JobRole,
    ReplayRole,
    RetireRole,
    WatchRole,
    parameters,
)
from infra.queues import KEPT
from infra.retention import log_group
from infra.stack import ClarionStack

IDLE_MINUTES = 1
"""EMR changes or deletes an application only while it is stopped, and the watch's next run comes soon."""
WATCH_TIMEOUT_MINUTES = 120
"""The first batch compacts a day or two, and one after a pause judges up to `pipeline.repair.watch.LONGEST_MS`."""
WATCH_QUEUE_MINUTES = 15
"""The least that EMR takes. A run that waits adds nothing: the next one goes on from the same instant."""
WATCH_WORKERS = 2
ARRIVAL_S = 120
"""So long after Firehose's buffering everything that comes of an envelope lies in the lake."""


class PipelineStack(EnvironmentStack):
    def __init__(
        self, scope: Construct, *, environment: EnvironmentConfig, pipeline: Pipeline, clarion: ClarionStack
    ) -> None:
        super().__init__(
            scope,
            "pipeline",
            environment=environment,
            description="Clarion's pipeline: reconciles and reports what Clarion did",
        )
        self._environment, self._pipeline = environment, pipeline
        data = Data(self, "Data", environment=environment, stack=clarion.data_stack)
        self._foundation = replace(clarion.foundation, data=data)
        self.code = Code(self, "Code", platform=environment.platform)
        self._log = log_group(
            self, "Log", name=f"/aws/emr-serverless/{environment.prefix}pipeline", environment=environment
        )
        self._base = JobBase(self._foundation, self.code, self._log)
        self.done, self.dead = self._queue("done"), self._queue("dead")
        self._network = self._outbound(clarion.ingest.vpc) if clarion.ingest else None
        self.applications = {"daily": self._application("daily", pipeline.workers)}
        self.daily = DailyRole(self, base=self._base, application=self.applications["daily"])
        self._output_job(self.daily)
        JobSchedule(
            self,
            "",
            name=f"{environment.prefix}daily",
            start=self._start(self.daily, "daily", self._daily_arguments(), pipeline.timeout_minutes),
            expression=f"cron(0 {pipeline.hour} * * ? *)",
            tried_for=Duration.hours(2),
            dead=self.dead,
        )
        if self._network:
            self._repairs()
        self.catalog = Catalog(self, "Catalog", environment=environment, lake=self._lake)
        self._notify("Succeeded", self.done, ["SUCCESS"], self.applications["daily"])
        self._notify("Failed", self.dead, ["FAILED", "CANCELLED"], *self.applications.values())
        # After that: a run of the watch that fails is no failure of the pipeline.
        if pipeline.watch_minutes:
            self._watch(pipeline.watch_minutes)
        self._output(EntryPoint=self.code.entry.s3_object_url, Lake=self._lake, Oversize=self._oversize)

    def _outbound(self, vpc: ec2.IVpc) -> emr.CfnApplication.NetworkConfigurationProperty:
        group = ec2.SecurityGroup(self, "Outbound", vpc=vpc, description="Out only: nobody calls")
        return emr.CfnApplication.NetworkConfigurationProperty(
            subnet_ids=[subnet.subnet_id for subnet in vpc.public_subnets],
            security_group_ids=[group.security_group_id],
        )

    def _repairs(self) -> None:
        """What an operator starts, once the daily run has found something."""
        application = self.applications["repairs"] = self._application("repairs", self._pipeline.workers)
        for role in (ReplayRole, RetireRole):
            self._output_job(role(self, base=self._base, application=application))

    def _output_job(self, role: JobRole) -> None:
        """What an operator needs to start it."""
        self._output(**{f"{role.job}RoleArn": role.role_arn, f"{role.job}Parameters": self._parameters(role)})

    def _parameters(self, role: JobRole) -> str:
        workers = WATCH_WORKERS if isinstance(role, WatchRole) else self._pipeline.workers
        return parameters(self.code, role.settings, region=self.region, workers=workers)

    @property
    def _lake(self) -> str:
        return f"s3://{self._foundation.data.lake.bucket_name}"

    @property
    def _oversize(self) -> str:
        return f"s3://{self._foundation.data.oversize.bucket_name}"

    def _application(self, name: str, workers: int, queue_minutes: int | None = None) -> emr.CfnApplication:
        """Workers' disks and the managed logs are encrypted by keys of EMR's own, the log group by CloudWatch's."""
        application = emr.CfnApplication
        logging = application.CloudWatchLoggingConfigurationProperty(
            enabled=True, log_group_name=self._log.log_group_name, log_stream_name_prefix=name
        )
        made = application(
            self,
            name.title(),
            name=f"{self._environment.prefix}{name}",
            type="SPARK",
            release_label=self._pipeline.release,
            architecture="ARM64",
            auto_start_configuration=application.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=application.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=IDLE_MINUTES
            ),
            maximum_capacity=application.MaximumAllowedResourcesProperty(
                cpu=f"{workers * VCPUS} vCPU",
                memory=f"{workers * GIGABYTES} GB",
                disk=f"{workers * DISK_GIGABYTES} GB",
            ),
            scheduler_configuration=application.SchedulerConfigurationProperty(
                max_concurrent_runs=1, queue_timeout_minutes=queue_minutes
            ),
            monitoring_configuration=application.MonitoringConfigurationProperty(
                cloud_watch_logging_configuration=logging
            ),
            network_configuration=self._network,
        )
        self._output(**{f"{name.title()}ApplicationId": made.attr_application_id})
        return made

    def _queue(self, name: str) -> sqs.Queue:
        """Keeps EMR's message about each run that ended so, for an operator to read."""
        queue = sqs.Queue(
            self,
            name.title(),
            queue_name=f"{self._environment.prefix}pipeline-{name}",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=self._environment.tls_only,
            retention_period=KEPT,
        )
        accept(queue, "SQS3", "It is where things end: nothing consumes it")
        return queue

    def _notify(self, name: str, queue: sqs.Queue, states: list[str], *applications: emr.CfnApplication) -> None:
        """https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/using-eventbridge.html"""
        pattern = events.EventPattern(
            source=["aws.emr-serverless"],
            detail_type=["EMR Serverless Job Run State Change"],
            detail={"applicationId": [each.attr_application_id for each in applications], "state": states},
        )
        events.Rule(self, name, event_pattern=pattern, targets=[events_targets.SqsQueue(queue)])

    def _watch(self, minutes: int) -> None:
        """A run goes on where the last one ended, so that none has to be made up for; `watch-silent` is about several."""
        application = self.applications["watch"] = self._application("watch", WATCH_WORKERS, WATCH_QUEUE_MINUTES)
        role = WatchRole(self, base=self._base, application=application)
        self._output_job(role)
        JobSchedule(
            self,
            role.job,
            name=f"{self._environment.prefix}watch",
            start=self._start(role, "watch", self._watch_arguments(), WATCH_TIMEOUT_MINUTES),
            expression=f"rate({minutes} minutes)",
            tried_for=Duration.minutes(minutes),
            dead=None,
        )

    def _start(self, role: JobRole, application: str, arguments: list[str], timeout_minutes: int) -> JobStart:
        made = self.applications[application]
        return JobStart(role, made, self.code, self._parameters(role), arguments, timeout_minutes)

    def _daily_arguments(self) -> list[str]:
        places = ["--lake", self._lake, "--oversize", self._oversize]
        counted = ["--stream", f"{self._environment.prefix}events"] if self._network else ["--assume-quiet"]
        stage = ["--stage", self._environment.stage]
        return ["daily", "--strict", *stage, *places, *counted]

    def _watch_arguments(self) -> list[str]:
        overdue = str(self._environment.lake_buffer_s + ARRIVAL_S)
        places = ["--lake", self._lake, "--oversize", self._oversize]
        return ["watch", "--once", "--stage", self._environment.stage, "--overdue-seconds", overdue, *places]

    def _output(self, **outputs: str) -> None:
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
