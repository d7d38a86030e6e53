"""The pipeline's jobs: who each runs as, what it may do, and how Spark is started for it."""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import Aws, Stack
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from clarion.metrics import NAMESPACE
from infra.config import Platform
from infra.findings import accept, objects_of
from infra.functions import Foundation
from infra.lake import LARGE
from infra.permissions import allow, allow_key
from infra.spark_bundle import ENTRY, PYTHONPATH, code_archive, packages_archive
from pipeline.columns import EventKind

PYTHON = "/usr/bin/python3.13"
"""Where Amazon Linux 2023 has the version that the release names;
https://docs.aws.amazon.com/emr/latest/ReleaseGuide/emr-spark810-release.html"""
WRITTEN_DAILY = (*EventKind, "unreadable", "differences", "reports", "snapshots", "manifests", "symlinks")
"""The lake's folders by job; `pipeline.lake.event_lake` names them."""
WRITTEN_BY_WATCH = (*EventKind, "unreadable", "losses", "checkpoints", "manifests", "symlinks")
WRITTEN_BY_REPLAY = ("replays", "replayed")
ONLY_WRITTEN = frozenset({*WRITTEN_BY_REPLAY, "losses", "symlinks"})
"""The folders in which no job removes anything."""
PLANNED = "manifests/replays/"
"""The manifests of its runs."""

VCPUS, GIGABYTES, DISK_GIGABYTES = 4, 16, 100
"""Of each worker. Python, which decodes and verifies, works outside Java's memory. What the disk is for, and why it has
this size: docs/operations.md, "What a worker has"."""
WORKER = {
    "spark.driver.cores": str(VCPUS),
    "spark.driver.memory": "12g",
    "spark.driver.memoryOverhead": "4g",
    "spark.executor.cores": str(VCPUS),
    "spark.executor.memory": "9g",
    "spark.executor.memoryOverhead": "7g",
    **{f"spark.emr-serverless.{one}.disk": f"{DISK_GIGABYTES}g" for one in ("driver", "executor")},
}


class Code(Construct):
    """The entry point and the two archives, as CDK uploads them."""

    def __init__(self, scope: Construct, construct_id: str, *, platform: Platform) -> None:
        super().__init__(scope, construct_id)
        packages, code = packages_archive(platform), code_archive()
        self.packages, self.code = (
            assets.Asset(self, name, path=str(archive)) for name, archive in (("Packages", packages), ("Code", code))
        )
        self.entry = assets.Asset(self, "Entry", path=str(ENTRY))

    @property
    def archives(self) -> str:
        return f"{self.packages.s3_object_url}#packages,{self.code.s3_object_url}#code"

    def allow(self, role: iam.Role) -> None:
        for asset in (self.packages, self.code, self.entry):
            allow(role, "s3: GetObject", asset.bucket.arn_for_objects(asset.s3_object_key))


@dataclass(frozen=True)
class JobBase:
    """What the jobs have in common: what they read and repair, their code, and their log."""

    foundation: Foundation
    code: Code
    log: logs.ILogGroup


class JobRole(iam.Role):
    """May run in `application` alone, read the code, write the log and read the lake. `settings` are the job's own."""

    def __init__(self, scope: Stack, name: str, *, base: JobBase, application: emr.CfnApplication) -> None:
        of_this_application = {
            "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
            "ArnLike": {"aws:SourceArn": application.attr_arn},
        }
        trusted = iam.ServicePrincipal("emr-serverless.amazonaws.com", conditions=of_this_application)
        super().__init__(scope, f"{name}Role", assumed_by=trusted)
        self.settings: Mapping[str, str] = {}
        self.job = name
        self._foundation = base.foundation
        base.code.allow(self)
        self._allow_logging(base.log)

    def _allow_logging(self, log: logs.ILogGroup) -> None:
        allow(self, "logs: CreateLogStream DescribeLogStreams PutLogEvents", log.log_group_arn)
        allow(self, "logs: DescribeLogGroups", "*")
        accept(
            self,
            "IAM5[Resource::*]",
            "EMR looks for the group by its name, which takes a listing of all; figures are no resource",
        )

    def allow_lake(self, written: tuple[str, ...]) -> None:
        bucket = self._foundation.data.lake
        allow(self, "s3: ListBucket", bucket.bucket_arn)
        allow(self, "s3: GetObject", bucket.arn_for_objects("*"))
        accept(
            self,
            objects_of(bucket),
            "Reads files whose names Spark or Firehose chose; nothing but the lake lies there",
        )
        for folder in written:
            objects = bucket.arn_for_objects(f"{folder}/*")
            allow(
                self, f"s3: AbortMultipartUpload PutObject{'' if folder in ONLY_WRITTEN else ' DeleteObject'}", objects
            )
            accept(
                self,
                objects_of(bucket, f"{folder}/"),
                "Files are named as they are written: by Spark, or by the run or period that they are of",
            )
        allow_key(self, self._foundation.data.key, "s3", "Decrypt GenerateDataKey" if written else "Decrypt")

    def allow_large_envelopes(self) -> None:
        """Without the listing, S3 would call an envelope that is gone forbidden."""
        bucket = self._foundation.data.oversize
        allow(self, "s3: ListBucket", bucket.bucket_arn)
        allow(self, "s3: GetObject", bucket.arn_for_objects(f"{LARGE}*"))
        accept(self, objects_of(bucket, LARGE), "Receipts name the objects")


class DailyRole(JobRole):
    def __init__(self, scope: Stack, *, base: JobBase, application: emr.CfnApplication) -> None:
        super().__init__(scope, "Daily", base=base, application=application)
        self.allow_lake(WRITTEN_DAILY)
        self.allow_large_envelopes()
        # Figures are no resource.
        allow(self, "cloudwatch: GetMetricData", "*")


class WatchRole(JobRole):
    def __init__(self, scope: Stack, *, base: JobBase, application: emr.CfnApplication) -> None:
        super().__init__(scope, "Watch", base=base, application=application)
        self.allow_lake(WRITTEN_BY_WATCH)
        self.allow_large_envelopes()
        own = {"StringEquals": {"cloudwatch:namespace": NAMESPACE}}
        recording = iam.PolicyStatement(actions=["cloudwatch:PutMetricData"], resources=["*"], conditions=own)
        self.add_to_principal_policy(recording)


class ReplayRole(JobRole):
    def __init__(self, scope: Stack, *, base: JobBase, application: emr.CfnApplication) -> None:
        super().__init__(scope, "Replay", base=base, application=application)
        queue = base.foundation.queues.envelopes.queue
        self.allow_lake(WRITTEN_BY_REPLAY)
        lake = base.foundation.data.lake
        allow(self, "s3: PutObject", lake.arn_for_objects(f"{PLANNED}*"))
        accept(self, objects_of(lake, PLANNED), "Each run has a manifest of its own, by its number")
        self.allow_large_envelopes()
        allow(self, "sqs: SendMessage", queue.queue_arn)
        self.settings = {"envelopes_queue_url": queue.queue_url}


class RetireRole(JobRole):
    def __init__(self, scope: Stack, *, base: JobBase, application: emr.CfnApplication) -> None:
        super().__init__(scope, "Retire", base=base, application=application)
        foundation = base.foundation
        tables = foundation.data.tables
        self.allow_lake(())
        allow(self, "dynamodb: BatchGetItem DeleteItem", tables.subscriptions)
        allow(self, "dynamodb: DeleteItem", tables.tokens, tables.wake_ups)
        allow(self, "dynamodb: Query BatchWriteItem", tables.rules)
        foundation.allow_events(self)
        allow_key(self, foundation.data.key, "dynamodb")
        self.settings = foundation.settings


def parameters(code: Code, settings: Mapping[str, str], *, region: str, workers: int) -> str:
    """What spark-submit is given for a job, of at most so many workers, the driver among them.

    All executors are there from the beginning to the end: a day's files are work for each, EMR's own three may be too many,
    and what is computed once stays on their disks.
    """
    driver = {
        "PYSPARK_DRIVER_PYTHON": PYTHON,
        "PYSPARK_PYTHON": PYTHON,
        "PYTHONPATH": PYTHONPATH,
        "AWS_DEFAULT_REGION": region,
        **{f"CLARION_{name.upper()}": value for name, value in settings.items()},
    }
    named = {
        **WORKER,
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.instances": str(workers - 1),
        "spark.archives": code.archives,
        # CloudWatch takes money by the gigabyte, and Spark logs each task.
        "spark.log.level": "WARN",
        **{f"spark.emr-serverless.driverEnv.{name}": value for name, value in driver.items()},
        "spark.executorEnv.AWS_DEFAULT_REGION": region,
        "spark.executorEnv.PYSPARK_PYTHON": PYTHON,
        "spark.executorEnv.PYTHONPATH": PYTHONPATH,
    }
    return " ".join(f"--conf {name}={value}" for name, value in named.items())
