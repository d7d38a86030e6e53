"""Firehose, by which events get into the lake."""

from aws_cdk import Duration, RemovalPolicies, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesisfirehose as firehose
from constructs import Construct

from infra.config import EnvironmentConfig
from infra.data import Data
from infra.findings import accept, objects_of
from infra.lake import ERRORS, EVENTS
from infra.permissions import allow, allow_key
from infra.retention import log_group


class DeliveryStream(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig, data: Data) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._data = data
        self._log = log_group(
            self, "Log", name=f"/aws/kinesisfirehose/{environment.prefix}events", environment=environment
        )
        self._writer = self._lake_writer()
        self.stream = self._events()

    def _events(self) -> firehose.DeliveryStream:
        # CDK would let the stream delete objects and read any; what it needs is granted below.
        role = self._writer.without_policy_updates()
        stream = firehose.DeliveryStream(
            self,
            "Events",
            delivery_stream_name=f"{self._environment.prefix}events",
            destination=self._destination(role),
            role=role,
            encryption=firehose.StreamEncryption.aws_owned_key(),
        )
        stream.node.add_dependency(self._writer)
        # CDK would keep the log's stream when the group goes.
        RemovalPolicies.of(self._log).destroy()
        return stream

    def _destination(self, role: iam.IRole) -> firehose.S3Bucket:
        """Events as JSON lines under `events/day=…/hour=…`, by the hour of arrival in UTC."""
        environment = self._environment
        hourly = "day=!{timestamp:yyyy-MM-dd}/hour=!{timestamp:HH}/"
        return firehose.S3Bucket(
            self._data.lake,
            role=role,
            data_output_prefix=f"{EVENTS}{hourly}",
            error_output_prefix=f"{ERRORS}!{{firehose:error-output-type}}/{hourly}",
            buffering_interval=Duration.seconds(environment.lake_buffer_s),
            buffering_size=Size.mebibytes(64),
            compression=firehose.Compression.GZIP if environment.lake_zipped else None,
            file_extension=".jsonl.gz" if environment.lake_zipped else ".jsonl",
            encryption_key=self._data.key,
            logging_config=firehose.EnableLogging(self._log),
        )

    def _lake_writer(self) -> iam.Role:
        """https://docs.aws.amazon.com/firehose/latest/dev/controlling-access.html#using-iam-s3"""
        role = iam.Role(self, "Writer", assumed_by=iam.ServicePrincipal("firehose.amazonaws.com"))
        bucket = self._data.lake
        allow(role, "s3: GetBucketLocation ListBucket ListBucketMultipartUploads", bucket.bucket_arn)
        for folder in (EVENTS, ERRORS):
            allow(role, "s3: AbortMultipartUpload PutObject", bucket.arn_for_objects(f"{folder}*"))
            accept(role, objects_of(bucket, folder), "Firehose names its objects: by the hour, and at random")
        allow_key(role, self._data.key, "s3")
        allow(role, "logs: PutLogEvents", self._log.log_group_arn)
        return role
