"""The buckets: of the lake that Firehose fills with events, of the passing things, and of access logs.

The passing things are envelopes too large for a queue, under `LARGE`, and what ingest has seen, under `SEEN`. Every
object expires by its age. What has to last longer is written again in time: by ingest, its record once a day, and by the
pipeline's daily run, a snapshot of the rules that are in force.
"""

from typing import cast

from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from clarion.storage import DELIVERIES_PREFIX, EVENTS_PREFIX, OVERSIZE_PREFIX, SEEN_PREFIX
from infra.config import EnvironmentConfig
from infra.findings import accept
from infra.queues import KEPT
from infra.retention import removal

EVENTS, ERRORS = EVENTS_PREFIX, "errors/"
"""What Firehose adds, and what it could not; the pipeline sorts the former into folders beside."""
DELIVERIES = DELIVERIES_PREFIX
DELIVERIES_DAYS = 2
"""So long an index is kept of what became of whose pushes."""
LARGE, SEEN = OVERSIZE_PREFIX, SEEN_PREFIX
"""Of the passing things: envelopes too large for a queue, as ingest names them; and what ingest has seen."""
OVERSIZE_DAYS = 2 * int(KEPT.to_days()) + 1
"""One day longer than the message that points at the object can wait in its queue, and then as a dead letter.

Whoever redrives it later than that redrives what has no content any more.
"""

ACCESS_LOG_DAYS = 90


class Buckets(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._key = key
        self._access_logs = self._access_log_bucket()
        self.lake = self._bucket("Bucket", environment.lake_days)
        self.lake.add_lifecycle_rule(prefix=DELIVERIES, expiration=Duration.days(DELIVERIES_DAYS))
        self.oversize = self._bucket("Oversize", OVERSIZE_DAYS)
        self.edge_logs = self._edge_log_bucket() if environment.api.per_address else None

    def send_new_files_to(self, queue: sqs.IQueue) -> None:
        """Have S3 send `queue` a message for each file of events: from this stack's buckets alone.

        CloudFormation names them after the stack. That of the lake is not known yet: it is made after the queue.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/grant-destinations-permissions-to-s3.html
        """
        stack = Stack.of(self)
        ours = stack.format_arn(service="s3", region="", account="", resource=f"{stack.stack_name}-*")
        own = {"StringEquals": {"aws:SourceAccount": stack.account}, "ArnLike": {"aws:SourceArn": ours}}
        service = iam.ServicePrincipal("s3.amazonaws.com", conditions=own)
        queue.add_to_resource_policy(
            iam.PolicyStatement(actions=["sqs:SendMessage"], principals=[service], resources=[queue.queue_arn])
        )
        rule = s3.CfnBucket.FilterRuleProperty(name="prefix", value=EVENTS)
        files = s3.CfnBucket.NotificationFilterProperty(s3_key=s3.CfnBucket.S3KeyFilterProperty(rules=[rule]))
        written = s3.CfnBucket.QueueConfigurationProperty(
            event="s3:ObjectCreated:*", queue=queue.queue_arn, filter=files
        )
        resource = cast("s3.CfnBucket", self.lake.node.default_child)
        # CDK's own way is a function that calls S3 while the stack is deployed.
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            queue_configurations=[written]
        )
        # S3 tries whether it may send.
        self.lake.node.add_dependency(queue)

    def _bucket(self, construct_id: str, days: int) -> s3.Bucket:
        """Everything in it expires, whoever writes it: who is notified of whose envelopes must not stay for ever."""
        return s3.Bucket(
            self,
            construct_id,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self._key,
            bucket_key_enabled=True,
            server_access_logs_bucket=self._access_logs,
            server_access_logs_prefix=f"{construct_id.lower()}/",
            enforce_ssl=self._environment.tls_only,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            lifecycle_rules=[
                s3.LifecycleRule(expiration=Duration.days(days)),
                s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(1)),
            ],
            removal_policy=removal(self._environment),
        )

    def _access_log_bucket(self) -> s3.Bucket:
        """S3 delivers access logs only under its own keys."""
        return s3.Bucket(
            self,
            "AccessLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=self._environment.tls_only,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(ACCESS_LOG_DAYS))],
            removal_policy=removal(self._environment),
        )

    def _edge_log_bucket(self) -> s3.Bucket:
        """Who asked for what: API Gateway only sees CloudFront. CloudFront delivers its logs by an access control list."""
        bucket = s3.Bucket(
            self,
            "EdgeLogs",
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=self._environment.tls_only,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_PREFERRED,
            lifecycle_rules=[s3.LifecycleRule(expiration=Duration.days(self._environment.log_days))],
            removal_policy=removal(self._environment),
        )
        accept(bucket, "S1", "It holds CloudFront's access logs, and only CloudFront writes to it")
        return bucket
