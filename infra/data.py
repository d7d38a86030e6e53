"""What outlasts the other stacks, in one of its own: tables, secrets and buckets under one key.

Other stacks know by its name what has one of ours. What CloudFormation names, the key and the buckets, they read from
parameters in SSM, again at each deployment: so a replaced one is noticed, and none holds up the other. Exports would
forbid to change what is referred to, and outputs are read again only when the reader's template has changed.
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-getstackoutput.html
"""

from aws_cdk import CfnParameter, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from infra.base import EnvironmentStack
from infra.config import EnvironmentConfig, Lasting
from infra.lake import Buckets
from infra.permissions import for_alarms
from infra.queues import queue_pair
from infra.retention import removal
from infra.secrets import Secrets
from infra.tables import ClarionTables

DELIVERIES_QUEUE = "deliveries"
KEY, LAKE, OVERSIZE, EDGE_LOGS = "key", "lake", "oversize", "edge-logs"
"""What is published, by the names of the parameters."""


class DataStack(EnvironmentStack):
    def __init__(self, scope: Construct, *, environment: EnvironmentConfig) -> None:
        super().__init__(
            scope,
            "data",
            environment=environment,
            description="Clarion's data: what outlasts the other stacks",
            protected=environment.data is Lasting.KEEP,
        )
        self._environment = environment
        key = self._key()
        self.tables = ClarionTables(self, "Tables", environment=environment, key=key)
        self.secrets = Secrets(self, "Secrets", environment=environment, key=key)
        self.buckets = Buckets(self, "Lake", environment=environment, key=key)
        # S3 wants a queue to be there before its bucket, and goes on filling it while there are no functions.
        deliveries = queue_pair(Construct(self, "Queues"), environment, DELIVERIES_QUEUE, environment.deliveries)
        self.buckets.send_new_files_to(deliveries.queue)
        self._publish(key)

    def _key(self) -> kms.Key:
        """One key for what is private: push tokens, provider keys, and who is notified of whose envelopes."""
        environment = self._environment
        key = kms.Key(
            self,
            "Key",
            alias=f"alias/{environment.prefix}data",
            enable_key_rotation=True,
            removal_policy=removal(environment),
        )
        if environment.monitored:
            key.add_to_resource_policy(for_alarms("kms: Decrypt GenerateDataKey", "*"))
        return key

    def _publish(self, key: kms.Key) -> None:
        buckets = {LAKE: self.buckets.lake, OVERSIZE: self.buckets.oversize, EDGE_LOGS: self.buckets.edge_logs}
        named = {name: bucket.bucket_name for name, bucket in buckets.items() if bucket}
        published = Construct(self, "Published")
        for name, value in {KEY: key.key_arn, **named}.items():
            ssm.StringParameter(
                published, name.title(), parameter_name=f"{self._environment.prefix}{name}", string_value=value
            )


class Data(Construct):
    """The data stack as another one refers to it: tables by ARN and secrets by name, the rest as constructs."""

    def __init__(
        self, scope: EnvironmentStack, construct_id: str, *, environment: EnvironmentConfig, stack: DataStack
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self.tables, self.secrets = stack.tables, stack.secrets
        self.key = kms.Key.from_key_arn(self, "EncryptionKey", self._read(KEY))
        self.lake, self.oversize = self.bucket(LAKE), self.bucket(OVERSIZE)
        queue_arn = Stack.of(self).format_arn(service="sqs", resource=f"{environment.prefix}{DELIVERIES_QUEUE}")
        self.deliveries = sqs.Queue.from_queue_arn(self, "Deliveries", queue_arn)
        # So that it is deployed before, and removed after.
        scope.add_stack_dependency(stack)

    def bucket(self, name: str) -> s3.IBucket:
        return s3.Bucket.from_bucket_name(self, f"{name.title()}Bucket", self._read(name))

    def _read(self, name: str) -> str:
        parameter = CfnParameter(
            self, name.title(), type="AWS::SSM::Parameter::Value<String>", default=f"{self._environment.prefix}{name}"
        )
        return parameter.value_as_string
