"""The Spark pipeline in a stack of its own, beside the one that it reads and repairs.

Two applications of EMR Serverless, which cost nothing while no job runs. What the schedule starts has no network but
AWS's own way to S3. `replay` and `retire`, which an operator starts, have to reach SQS and Firehose: their application
lies in ingest's public subnets, where no NAT gateway is needed. Each runs one job at a time, so that no two write the
same folders or hand back the same messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import ArnFormat, AssetHashType, Aws, CfnOutput, Duration, Stack
from aws_cdk import Environment as Account
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as events_targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import Environment, Pipeline, Platform
from infra.findings import accept, objects_elsewhere
from infra.lake import STATEMENTS
from infra.permissions import allow, allow_key
from infra.queues import KEPT
from infra.retention import log_group
from infra.spark_bundle import ENTRY, PYTHONPATH, code_archive, packages_archive
from infra.stack import ClarionStack

PYTHON = "/usr/bin/python3.13"
"""Where Amazon Linux 2023 has the version that the release names;
https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-spark810-release.html"""
KINDS = ("observed", "statement", "notification", "push", "subscription", "rules")
WRITTEN_DAILY = (*KINDS, "unreadable", "differences", "reports")
"""The lake's folders by job; `pipeline.lake` names them."""
WRITTEN_BY_REPLAY = ("replays", "replayed")

VCPUS, GIGABYTES = 4, 16
"""Of each worker. Python, which decodes and verifies, works outside Java's memory."""
WORKER = {
    "spark.driver.cores": str(VCPUS),
    "spark.driver.memory": "12g",
    "spark.driver.memoryOverhead": "4g",
    "spark.executor.cores": str(VCPUS),
    "spark.executor.memory": "9g",
    "spark.executor.memoryOverhead": "7g",
}
IDLE_MINUTES = 5
RETRIES = 5


@dataclass(frozen=True)
class Job:
    """Who a job runs as, and what spark-submit is told for it."""

    role: iam.Role
    parameters: str


class PipelineStack(Stack):
    def __init__(
        self, scope: Construct, *, environment: Environment, pipeline: Pipeline, clarion: ClarionStack
    ) -> None:
        super().__init__(
            scope,
            f"{environment.prefix}pipeline",
            env=Account(account=environment.account, region=environment.region),
            description="Clarion's pipeline: reconciles and reports what Clarion did",
        )
        self._environment, self._pipeline, self._clarion = environment, pipeline, clarion
        self.code = Code(self, "Code", platform=environment.platform)
        self._log = log_group(
            self, "Log", name=f"/aws/emr-serverless/{environment.prefix}pipeline", environment=environment
        )
        self.done, self.dead = self._queue("done"), self._queue("dead")
        self.applications = {"daily": self._application("daily")}
        self.daily = self._daily(self.applications["daily"])
        self._schedule(self.applications["daily"])
        if clarion.ingest:
            self._repairs(clarion.ingest.vpc)
        self._hear("Succeeded", self.done, ["SUCCESS"], self.applications["daily"])
        self._hear("Failed", self.dead, ["FAILED", "CANCELLED"], *self.applications.values())
        self._tell(EntryPoint=self.code.entry.s3_object_url, Lake=self._lake, Oversize=self._oversize)

    def _repairs(self, vpc: ec2.IVpc) -> None:
        """What an operator starts, once the daily run has found something."""
        outbound = ec2.SecurityGroup(self, "Outbound", vpc=vpc, description="Out only: nobody calls")
        network = emr.CfnApplication.NetworkConfigurationProperty(
            subnet_ids=[subnet.subnet_id for subnet in vpc.public_subnets],
            security_group_ids=[outbound.security_group_id],
        )
        application = self.applications["repairs"] = self._application("repairs", network)
        self.replay, self.retire = self._replay(application), self._retire(application)

    @property
    def _lake(self) -> str:
        return f"s3://{self._clarion.lake.bucket.bucket_name}"

    @property
    def _oversize(self) -> str:
        return f"s3://{self._clarion.lake.oversize.bucket_name}"

    def _application(
        self, name: str, network: emr.CfnApplication.NetworkConfigurationProperty | None = None
    ) -> emr.CfnApplication:
        """Workers' disks and the managed logs are encrypted by keys of EMR's own, the log group by CloudWatch's."""
        application, pipeline = emr.CfnApplication, self._pipeline
        logging = application.CloudWatchLoggingConfigurationProperty(
            enabled=True, log_group_name=self._log.log_group_name, log_stream_name_prefix=name
        )
        made = application(
            self,
            name.title(),
            name=f"{self._environment.prefix}{name}",
            type="SPARK",
            release_label=pipeline.release,
            architecture="ARM64",
            auto_start_configuration=application.AutoStartConfigurationProperty(enabled=True),
            auto_stop_configuration=application.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=IDLE_MINUTES
            ),
            maximum_capacity=application.MaximumAllowedResourcesProperty(
                cpu=f"{pipeline.workers * VCPUS} vCPU", memory=f"{pipeline.workers * GIGABYTES} GB"
            ),
            scheduler_configuration=application.SchedulerConfigurationProperty(max_concurrent_runs=1),
            monitoring_configuration=application.MonitoringConfigurationProperty(
                cloud_watch_logging_configuration=logging
            ),
            network_configuration=network,
        )
        self._tell(**{f"{name.title()}ApplicationId": made.attr_application_id})
        return made

    def _daily(self, application: emr.CfnApplication) -> Job:
        job = self._job("Daily", application)
        self._allow_lake(job.role, WRITTEN_DAILY)
        self._allow_oversize(job.role)
        return job

    def _replay(self, application: emr.CfnApplication) -> Job:
        queues = {
            "statements": self._clarion.queues.statements.queue,
            "apns": self._clarion.queues.apns.queue,
            "voip": self._clarion.queues.voip.queue,
            "fcm": self._clarion.queues.fcm.queue,
        }
        urls = {f"{name}_queue_url": queue.queue_url for name, queue in queues.items()}
        job = self._job("Replay", application, urls)
        self._allow_lake(job.role, WRITTEN_BY_REPLAY)
        self._allow_oversize(job.role)
        allow(job.role, "sqs: SendMessage", *(queue.queue_arn for queue in queues.values()))
        return job

    def _retire(self, application: emr.CfnApplication) -> Job:
        tables, stream = self._clarion.tables, self._clarion.lake.events
        settings = {"table_prefix": self._environment.prefix, "events_stream": f"{self._environment.prefix}events"}
        job = self._job("Retire", application, settings)
        self._allow_lake(job.role, ())
        allow(job.role, "dynamodb: BatchGetItem DeleteItem", tables.subscriptions.table_arn)
        allow(job.role, "dynamodb: DeleteItem", tables.tokens.table_arn)
        allow(job.role, "dynamodb: Query BatchWriteItem", tables.rules.table_arn)
        allow(job.role, "firehose: PutRecordBatch", stream.delivery_stream_arn)
        allow_key(job.role, self._clarion.key, "dynamodb")
        return job

    def _job(self, name: str, application: emr.CfnApplication, settings: Mapping[str, str] | None = None) -> Job:
        """Runs in `application` alone, and may read the code and write the log."""
        of_this_application = {
            "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
            "ArnLike": {"aws:SourceArn": application.attr_arn},
        }
        trusted = iam.ServicePrincipal("emr-serverless.amazonaws.com", conditions=of_this_application)
        role = iam.Role(self, f"{name}Role", assumed_by=trusted)
        self.code.allow(role)
        allow(role, "logs: CreateLogStream DescribeLogStreams PutLogEvents", self._log.log_group_arn)
        groups = self.format_arn(
            service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
        )
        allow(role, "logs: DescribeLogGroups", groups)
        account = self._environment.account or "<AWS::AccountId>"  # as cdk-nag names one that is not known yet
        groups_of_account = f"arn:aws:logs:{self.region}:{account}:log-group:*"
        accept(role, f"IAM5[Resource::{groups_of_account}]", "EMR looks for the group by its name")
        parameters = self._parameters(settings or {})
        self._tell(**{f"{name}RoleArn": role.role_arn, f"{name}Parameters": parameters})
        return Job(role, parameters)

    def _parameters(self, settings: Mapping[str, str]) -> str:
        driver = {
            "PYSPARK_DRIVER_PYTHON": PYTHON,
            "PYSPARK_PYTHON": PYTHON,
            "PYTHONPATH": PYTHONPATH,
            "AWS_DEFAULT_REGION": self.region,
            **{f"CLARION_{name.upper()}": value for name, value in settings.items()},
        }
        told = {
            **WORKER,
            "spark.dynamicAllocation.maxExecutors": str(self._pipeline.workers - 1),
            "spark.archives": self.code.archives,
            **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in driver.items()},
            "spark.executorEnv.PYSPARK_PYTHON": PYTHON,
            "spark.executorEnv.PYTHONPATH": PYTHONPATH,
        }
        return " ".join(f"--conf {name}={value}" for name, value in told.items())

    def _allow_lake(self, role: iam.Role, written: tuple[str, ...]) -> None:
        bucket = self._clarion.lake.bucket
        allow(role, "s3: ListBucket", bucket.bucket_arn)
        allow(role, "s3: GetObject", bucket.arn_for_objects("*"))
        accept(
            role,
            objects_elsewhere(bucket),
            "Reads files whose names Spark or Firehose chose; nothing but the lake lies there",
        )
        for folder in written:
            objects = bucket.arn_for_objects(f"{folder}/*")
            allow(role, "s3: AbortMultipartUpload DeleteObject PutObject", objects)
            accept(
                role,
                objects_elsewhere(bucket, f"{folder}/"),
                "Files are named as they are written: by Spark, or by the run or period that they are of",
            )
        allow_key(role, self._clarion.key, "s3")

    def _allow_oversize(self, role: iam.Role) -> None:
        """Without the listing, S3 would call a statement that is gone forbidden."""
        bucket = self._clarion.lake.oversize
        allow(role, "s3: ListBucket", bucket.bucket_arn)
        allow(role, "s3: GetObject", bucket.arn_for_objects(f"{STATEMENTS}*"))
        accept(role, objects_elsewhere(bucket, STATEMENTS), "Receipts name the objects")

    def _queue(self, name: str) -> sqs.Queue:
        """Keeps EMR's word about each run that ended so, for an operator to read."""
        queue = sqs.Queue(
            self,
            name.title(),
            queue_name=f"{self._environment.prefix}pipeline-{name}",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=KEPT,
        )
        accept(queue, "SQS3", "It is where things end: nothing consumes it")
        return queue

    def _hear(self, name: str, queue: sqs.Queue, states: list[str], *applications: emr.CfnApplication) -> None:
        """https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/using-eventbridge.html"""
        pattern = events.EventPattern(
            source=["aws.emr-serverless"],
            detail_type=["EMR Serverless Job Run State Change"],
            detail={"applicationId": [each.attr_application_id for each in applications], "state": states},
        )
        events.Rule(self, name, event_pattern=pattern, targets=[events_targets.SqsQueue(queue)])

    def _schedule(self, application: emr.CfnApplication) -> None:
        """A start whose answer was lost is tried anew, and then the day may be done twice: it comes out the same."""
        role = self._starter(application)
        run = {
            "ApplicationId": application.attr_application_id,
            "ClientToken": scheduler.ContextAttribute.execution_id,
            "ExecutionRoleArn": self.daily.role.role_arn,
            "ExecutionTimeoutMinutes": self._pipeline.timeout_minutes,
            "Name": "daily",
            "JobDriver": {
                "SparkSubmit": {
                    "EntryPoint": self.code.entry.s3_object_url,
                    "EntryPointArguments": self._daily_words(),
                    "SparkSubmitParameters": self.daily.parameters,
                }
            },
        }
        target = scheduler.CfnSchedule.TargetProperty(
            arn=f"arn:{Aws.PARTITION}:scheduler:::aws-sdk:emrserverless:startJobRun",
            role_arn=role.role_arn,
            input=self.to_json_string(run),
            dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=self.dead.queue_arn),
            retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                maximum_retry_attempts=RETRIES, maximum_event_age_in_seconds=Duration.hours(2).to_seconds()
            ),
        )
        schedule = scheduler.CfnSchedule(
            self,
            "Schedule",
            name=f"{self._environment.prefix}daily",
            schedule_expression=f"cron(0 {self._pipeline.hour} * * ? *)",
            schedule_expression_timezone="UTC",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=target,
        )
        schedule.node.add_dependency(role)

    def _daily_words(self) -> list[str]:
        keep_days = str(self._environment.lake_days)
        places = ["--lake", self._lake, "--oversize", self._oversize]
        return ["daily", "--strict", "--keep-days", keep_days, *places]

    def _starter(self, application: emr.CfnApplication) -> iam.Role:
        of_this_account = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
        trusted = iam.ServicePrincipal("scheduler.amazonaws.com", conditions=of_this_account)
        role = iam.Role(self, "Starter", assumed_by=trusted)
        allow(role, "emr-serverless: StartJobRun", application.attr_arn)
        allow(role, "sqs: SendMessage", self.dead.queue_arn)
        to_emr = {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}
        passing = iam.PolicyStatement(actions=["iam:PassRole"], resources=[self.daily.role.role_arn], conditions=to_emr)
        role.add_to_principal_policy(passing)
        return role

    def _tell(self, **outputs: str) -> None:
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)


class Code(Construct):
    """The entry point and the two archives, as CDK uploads them."""

    def __init__(self, scope: Construct, construct_id: str, *, platform: Platform) -> None:
        super().__init__(scope, construct_id)
        packages, code = packages_archive(platform), code_archive()
        self.packages, self.code = (
            assets.Asset(self, name, path=str(archive), asset_hash_type=AssetHashType.CUSTOM, asset_hash=archive.stem)
            for name, archive in (("Packages", packages), ("Code", code))
        )
        self.entry = assets.Asset(self, "Entry", path=str(ENTRY))

    @property
    def archives(self) -> str:
        return f"{self.packages.s3_object_url}#packages,{self.code.s3_object_url}#code"

    def allow(self, role: iam.Role) -> None:
        for asset in (self.packages, self.code, self.entry):
            allow(role, "s3: GetObject", asset.bucket.arn_for_objects(asset.s3_object_key))
