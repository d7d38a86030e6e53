"""The ingest service: Fargate tasks that follow the networks' nodes, and the VPC that they run in.

The nodes are on the internet, so the tasks need a way out. A public address each (3.65 dollars a month) with no port
open costs less than a NAT gateway (32.85 a month and zone, 0.045 a GB), and interface endpoints (7.30 a month, zone and
service) would not reach the nodes at all. The gateway endpoints of S3 and DynamoDB are free.

The subnets give addresses to whatever starts in them. The tasks ask for theirs, but the pipeline's repairs can't:
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/vpc-access.html
"""

import json
from collections.abc import Sequence
from typing import cast

from aws_cdk import Duration, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from clarion.networks import network
from clarion.networks.needs import Commander
from infra.findings import accept, objects_of, wildcard
from infra.functions import Foundation
from infra.image import DOCKERFILE, HEALTH_COMMAND, STOP_SECONDS, base_is_pinned
from infra.lake import LARGE, SEEN
from infra.networks import allow_table
from infra.options import Ingest
from infra.permissions import allow, allow_key
from infra.regions import ZONES
from infra.retention import log_group
from infra.secrets import secret_arn
from infra.task_image import container_image

_SPOT = ecs.CapacityProviderStrategy(capacity_provider="FARGATE_SPOT", weight=1)
HEALTH_CHECK = ecs.HealthCheck(
    command=["CMD", *HEALTH_COMMAND],
    interval=Duration.seconds(30),
    timeout=Duration.seconds(15),
    start_period=Duration.seconds(300),
    retries=10,
)
"""A task is ready once it has read the rules. It has ten minutes: the start period, the longest that ECS takes, and then
the retries. Ten million take a quarter of a processor six, by `rule_cpu_s` of bench/measured.json."""


class IngestRole(iam.Role):
    """Who ingest runs as, also where it runs beside the stack, as it does beside the emulator."""

    def __init__(self, scope: Construct, construct_id: str, *, foundation: Foundation) -> None:
        super().__init__(scope, construct_id, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        queues, data = foundation.queues, foundation.data
        fed = (queues.envelopes.queue, *queues.commanded_by(Commander.SOURCE).values())
        allow(self, "sqs: SendMessage", *(queue.queue_arn for queue in fed))
        foundation.allow_events(self)
        allow(self, f"dynamodb: {_of_leases(foundation)}", data.tables.leases)
        allow(self, "dynamodb: DescribeTable Scan", data.tables.rules)
        streams = f"{data.tables.rules}/stream/*"
        allow(self, "dynamodb: DescribeStream GetShardIterator GetRecords", streams)
        accept(self, wildcard(self, streams), "A stream's name is the second in which it was made")
        for name in foundation.environment.followed_networks:
            for grant in network(name).needs.ingest_grants:
                allow_table(self, data.tables, grant)
        self._allow_secrets(foundation)
        self._allow_objects(data.oversize)
        allow_key(self, data.key, "dynamodb")
        allow_key(self, data.key, "s3")

    def _allow_secrets(self, foundation: Foundation) -> None:
        if secrets := secrets_of(foundation):
            arns = (secret_arn(Stack.of(self), name) for name in secrets.values())
            allow(self, "secretsmanager: GetSecretValue", *arns)
            allow_key(self, foundation.data.key, "secretsmanager", "Decrypt")

    def _allow_objects(self, bucket: s3.IBucket) -> None:
        allow(self, "s3: PutObject", bucket.arn_for_objects(f"{LARGE}*"))
        allow(self, "s3: ListBucket", bucket.bucket_arn)
        allow(self, "s3: GetObject PutObject DeleteObject", bucket.arn_for_objects(f"{SEEN}*"))
        for folder in (LARGE, SEEN):
            accept(self, objects_of(bucket, folder), "Receipts, and the order of saving, name the objects")


def _of_leases(foundation: Foundation) -> str:
    """Whoever finds its sources by itself divides them by leases of their own, and reads one of these before it doubts it."""
    divided = any(network(name).needs.finds_sources for name in foundation.environment.followed_networks)
    return "GetItem PutItem Scan" if divided else "PutItem Scan"


def secrets_of(foundation: Foundation) -> dict[str, str]:
    """What ingest reads of the networks that are followed: full names by the networks' own."""
    stored = foundation.data.secrets.networks
    return {
        secret: stored[name][secret]
        for name in foundation.environment.followed_networks
        for secret in network(name).needs.ingest_secrets
    }


class IngestService(Construct):
    def __init__(
        self, scope: Construct, construct_id: str, *, foundation: Foundation, ingest: Ingest, role: iam.IRole
    ) -> None:
        super().__init__(scope, construct_id)
        self._foundation = foundation
        self._environment = environment = foundation.environment
        self.vpc = self._network()
        self.task = ecs.FargateTaskDefinition(
            self,
            "Task",
            family=f"{environment.prefix}ingest",
            cpu=ingest.cpu,
            memory_limit_mib=ingest.memory_mb,
            task_role=role,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
            ),
        )
        self._add_container(ingest)
        self._warn_of_single_nodes(ingest)
        self._warn_of_an_unpinned_base()
        accept(
            self.task,
            "ECS2",
            "Names of queues and buckets, and nodes whose addresses hold no key: `Ingest` refuses others",
        )
        accept(
            self.task.obtain_execution_role(),
            "IAM5[Resource::*]",
            "ECR gives its login for no repository in particular",
        )
        self.service = self._service(ingest)

    def _network(self) -> ec2.Vpc:
        vpc = ec2.Vpc(
            self,
            "Network",
            max_azs=2,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="public", subnet_type=ec2.SubnetType.PUBLIC, map_public_ip_on_launch=True)
            ],
            restrict_default_security_group=False,  # nothing is in it, and CDK would need a function to change it
        )
        self._place(vpc)
        logs = log_group(
            self, "FlowLog", name=f"/aws/vpc/{self._environment.prefix}ingest", environment=self._environment
        )
        vpc.add_flow_log(
            "Rejected",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(logs),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )
        for name in ("S3", "DYNAMODB"):
            vpc.add_gateway_endpoint(name.title(), service=getattr(ec2.GatewayVpcEndpointAwsService, name))
        return vpc

    def _place(self, vpc: ec2.Vpc) -> None:
        """In zones that the pipeline's repairs can share; where none are known, in the account's first two."""
        environment = self._environment
        zones = environment.zones or ZONES.get(environment.region)
        if zones is None:
            Validations.of(self).add_warning(
                "clarion:zones",
                f"Which zones of {environment.region} EMR Serverless works in is not known here: set `zones` by their ids, "
                "or `replay` and `retire` may not start.",
            )
            return
        for subnet, zone in zip(vpc.public_subnets, zones, strict=True):
            resource = cast("ec2.CfnSubnet", subnet.node.default_child)
            resource.availability_zone, resource.availability_zone_id = None, zone

    def _settings(self, ingest: Ingest) -> dict[str, str]:
        queues = self._foundation.queues
        return {
            **self._foundation.settings,
            **ingest.following.as_settings(),
            "stage": self._environment.stage,
            "nodes": json.dumps({name: list(map(str, urls)) for name, urls in self._followed(ingest).items()}),
            "networks": ",".join(self._environment.followed_networks),
            "envelopes_queue_url": queues.envelopes.queue.queue_url,
            **queues.command_settings(Commander.SOURCE),
            **self._options(),
            **self._secrets(),
            "oversize_bucket": self._foundation.data.oversize.bucket_name,
        }

    def _followed(self, ingest: Ingest) -> dict[str, Sequence[object]]:
        """The nodes of each network that is deployed."""
        return {name: ingest.nodes[name] for name in self._environment.networks if name in ingest.nodes}

    def _options(self) -> dict[str, str]:
        """What the deployment says of the networks that are followed."""
        followed = ((name, self._environment.options_of(name)) for name in self._environment.followed_networks)
        options = {name: json.loads(one) for name, one in followed if one}
        return {"options": json.dumps(options)} if options else {}

    def _secrets(self) -> dict[str, str]:
        secrets = secrets_of(self._foundation)
        return {"secrets": json.dumps(secrets)} if secrets else {}

    def _warn_of_single_nodes(self, ingest: Ingest) -> None:
        for name, urls in self._followed(ingest).items():
            nodes = network(name).needs.nodes
            if len(urls) == 1 and nodes and not nodes.keeps_unread:
                Validations.of(self).add_warning(
                    f"clarion:single-node-{name}",
                    f"{name} has one node. What that shows while its connection is broken is pushed late, or never if "
                    "nodes of this network replay nothing.",
                )

    def _warn_of_an_unpinned_base(self) -> None:
        if not base_is_pinned():
            Validations.of(self).add_warning(
                "clarion:unpinned-base",
                f"The base in {DOCKERFILE} is a tag, which may lead to another image tomorrow: `make pin-base` pins it.",
            )

    def _add_container(self, ingest: Ingest) -> None:
        name = f"/aws/ecs/{self._environment.prefix}ingest"
        self.task.add_container(
            "Ingest",
            image=container_image(),
            environment={f"CLARION_{name.upper()}": value for name, value in self._settings(ingest).items()},
            logging=ecs.LogDrivers.aws_logs(
                stream_prefix="ingest",
                log_group=log_group(self, "Log", name=name, environment=self._environment),
            ),
            readonly_root_filesystem=True,
            health_check=HEALTH_CHECK,
            stop_timeout=Duration.seconds(STOP_SECONDS),
        )

    def _service(self, ingest: Ingest) -> ecs.FargateService:
        cluster = ecs.Cluster(
            self,
            "Cluster",
            cluster_name=f"clarion-{self._environment.stage}",
            vpc=self.vpc,
            enable_fargate_capacity_providers=ingest.spot,
        )
        accept(
            cluster,
            "ECS4",
            "Ingest emits the metrics that the alarms watch; Insights bills each of its own as a custom metric",
        )
        service = ecs.FargateService(
            self,
            "Service",
            service_name=f"{self._environment.prefix}ingest",
            cluster=cluster,
            task_definition=self.task,
            desired_count=ingest.tasks,
            capacity_provider_strategies=[_SPOT] if ingest.spot else None,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
            min_healthy_percent=100,
            max_healthy_percent=200,
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            assign_public_ip=True,
            security_groups=[ec2.SecurityGroup(self, "Outbound", vpc=self.vpc, description="Out only: nobody calls")],
        )
        # Of Spot, too, which is a resource of its own: while a task uses it, it can't be removed.
        service.node.add_dependency(cluster, self.vpc.internet_connectivity_established)
        return service
