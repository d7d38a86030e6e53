"""Where data rests in S3: the lake that Firehose fills with events, and statements too large for a queue."""

from aws_cdk import Duration, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kinesisfirehose as firehose
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.config import Environment
from infra.retention import log_group, removal

OVERSIZE_DAYS = 15
"""One day longer than a queue can hold the message that points at the object."""


class Lake(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, environment: Environment, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._key = key
        self.bucket = self._bucket("Bucket", environment.lake_days)
        self.oversize = self._bucket("Oversize", OVERSIZE_DAYS)
        self.events = self._events()

    def _events(self) -> firehose.DeliveryStream:
        """Events as JSON lines under `events/day=…/hour=…`, by the hour of arrival in UTC."""
        environment = self._environment
        name = f"{environment.prefix}events"
        hourly = "day=!{timestamp:yyyy-MM-dd}/hour=!{timestamp:HH}/"
        group = log_group(self, "Log", name=f"/aws/kinesisfirehose/{name}", environment=environment)
        destination = firehose.S3Bucket(
            self.bucket,
            role=iam.Role(self, "Writer", assumed_by=iam.ServicePrincipal("firehose.amazonaws.com")),
            data_output_prefix=f"events/{hourly}",
            error_output_prefix=f"errors/!{{firehose:error-output-type}}/{hourly}",
            buffering_interval=Duration.seconds(environment.lake_buffer_s),
            buffering_size=Size.mebibytes(64),
            compression=firehose.Compression.GZIP if environment.lake_zipped else None,
            file_extension=".jsonl.gz" if environment.lake_zipped else ".jsonl",
            encryption_key=self._key,
            logging_config=firehose.EnableLogging(group),
        )
        return firehose.DeliveryStream(
            self,
            "Events",
            delivery_stream_name=name,
            destination=destination,
            encryption=firehose.StreamEncryption.aws_owned_key(),
        )

    def _bucket(self, construct_id: str, days: int) -> s3.Bucket:
        return s3.Bucket(
            self,
            construct_id,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self._key,
            bucket_key_enabled=True,
            enforce_ssl=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(days), abort_incomplete_multipart_upload_after=Duration.days(1)
                )
            ],
            removal_policy=removal(self._environment),
        )
