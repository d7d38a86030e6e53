"""SimpleX's NTF server: Fargate tasks behind a network load balancer, in a stack of its own.

TLS ends in the tasks, for what agents sign is bound to its session: the balancer passes on TCP, and the agents' own addresses,
which the tasks' bounds go by. The tasks lie in ingest's network, where no NAT gateway is needed: see `infra.ingest`. What
all of it costs is in docs/operations.md.
"""

from functools import partial

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from clarion.metrics import Metric
from clarion.networks import SIMPLEX
from clarion.networks.needs import Function
from clarion.networks.simplex.settings import SimplexOptions
from infra.alarms import AlarmSpec
from infra.base import EnvironmentStack
from infra.config import EnvironmentConfig
from infra.findings import accept
from infra.image import NTF_COMMAND, STOP_SECONDS
from infra.metrics import AVERAGE, MAXIMUM, counted, of_targets
from infra.monitoring import add_alarm
from infra.networks import network_settings
from infra.options import NtfTasks
from infra.retention import log_group
from infra.stack import ClarionStack
from infra.task_image import container_image

PORT, HEALTH_PORT = 8974, 8975
"""Of the task, as `ntf.settings` has them."""
DRAINED = Duration.seconds(180)
"""From when a task is taken from the balancer until ECS has the task end, which closes those connections that it has itself.

The balancer goes on sending new ones for some two minutes: https://github.com/aws/containers-roadmap/issues/470
"""
QUIET = Duration.seconds(350)
"""After which the balancer forgets a connection without a word. The tasks end one sooner: `ntf.settings`."""
UNHEALTHY_AFTER = 5
"""Health checks that fail in a row. ECS ends such a task, and the agents of one that is full would all come to the others."""
MOST_CONNECTIONS = 2_500
"""Of a task, as `ntf.settings` has it. Quiet agents keep theirs for minutes, and take next to nothing of a processor."""
BUSY_PERCENT = 60
"""Of their processors or connections, beyond which there are more tasks: what comes has room until they have started."""
UNHEALTHY_MINUTES, UNREACHABLE_MINUTES = 10, 3


class NtfStack(EnvironmentStack):
    def __init__(
        self, scope: Construct, *, environment: EnvironmentConfig, ntf: NtfTasks, clarion: ClarionStack
    ) -> None:
        super().__init__(
            scope, "ntf", environment=environment, description="Clarion's NTF server, which SimpleX's agents call"
        )
        if clarion.ingest is None or clarion.ntf_role is None:
            raise ValueError("the NTF server runs in the network of ingest, which follows its queues")
        self._environment, self._ntf, self._vpc = environment, ntf, clarion.ingest.vpc
        self._foundation = clarion.foundation
        self.options = SimplexOptions.model_validate(environment.options[SIMPLEX])
        self._outside = self._group("Balancer", "Agents from anywhere, to the tasks alone", outbound=False)
        self._inside = self._group("Tasks", "The balancer alone, and out to AWS", outbound=True)
        self._connect()
        self.task = self._task(clarion.ntf_role)
        self.service = self._service()
        self._scale()
        self.balancer, self.targets = self._balancer()
        if clarion.alarms:
            self._watch(clarion.alarms.topic)
        CfnOutput(self, "NtfAddress", value=self.balancer.load_balancer_dns_name)

    def _group(self, name: str, description: str, *, outbound: bool) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(self, name, vpc=self._vpc, description=description, allow_all_outbound=outbound)

    def _connect(self) -> None:
        self._outside.add_ingress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(self.options.port), "Agents")
        accept(self._outside, "EC23", "Agents are anywhere, and prove by signatures what is theirs")
        for port in (PORT, HEALTH_PORT):
            self._inside.add_ingress_rule(self._outside, ec2.Port.tcp(port), "The balancer")
            self._outside.add_egress_rule(self._inside, ec2.Port.tcp(port), "The tasks")

    def _task(self, role: iam.IRole) -> ecs.FargateTaskDefinition:
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            family=f"{self._environment.prefix}ntf",
            cpu=self._ntf.cpu,
            memory_limit_mib=self._ntf.memory_mb,
            task_role=role,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
            ),
        )
        name = f"/aws/ecs/{self._environment.prefix}ntf"
        settings = {
            "stage": self._environment.stage,
            **network_settings(self._foundation, SIMPLEX, Function.SERVER),
            "port": str(PORT),
            "health_port": str(HEALTH_PORT),
        }
        task.add_container(
            "Ntf",
            image=container_image(),
            entry_point=list(NTF_COMMAND),
            environment={f"CLARION_{name.upper()}": value for name, value in settings.items()},
            logging=ecs.LogDrivers.aws_logs(
                stream_prefix="ntf", log_group=log_group(self, "Log", name=name, environment=self._environment)
            ),
            readonly_root_filesystem=True,
            stop_timeout=Duration.seconds(STOP_SECONDS),
            port_mappings=[ecs.PortMapping(container_port=port) for port in (PORT, HEALTH_PORT)],
        )
        accept(task, "ECS2", "Names of tables, queues and secrets: the secrets' values the task reads itself")
        accept(
            task.obtain_execution_role(),
            "IAM5[Resource::*]",
            "ECR gives its login for no repository in particular",
        )
        return task

    def _service(self) -> ecs.FargateService:
        """How many tasks it has is not stated here: a deployment would take away those that were added."""
        cluster = ecs.Cluster(self, "Cluster", cluster_name=f"{self._environment.prefix}ntf", vpc=self._vpc)
        accept(
            cluster,
            "ECS4",
            "The server emits the metrics that the alarms watch; Insights bills each of its own as a custom metric",
        )
        return ecs.FargateService(
            self,
            "Service",
            service_name=f"{self._environment.prefix}ntf",
            cluster=cluster,
            task_definition=self.task,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
            min_healthy_percent=100,
            max_healthy_percent=200,
            health_check_grace_period=Duration.seconds(60),
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            assign_public_ip=True,
            security_groups=[self._inside],
        )

    def _scale(self) -> None:
        """A new task gets new connections alone: those that are there stay where they are until they end."""
        tasks = self.service.auto_scale_task_count(min_capacity=self._ntf.tasks, max_capacity=self._ntf.most_tasks)
        tasks.scale_on_cpu_utilization(
            "Busy",
            target_utilization_percent=BUSY_PERCENT,
            scale_out_cooldown=Duration.minutes(1),
            scale_in_cooldown=Duration.minutes(10),
        )
        tasks.scale_to_track_custom_metric(
            "Full",
            metric=counted(self._environment.stage, "ntf", Metric.NTF_SESSIONS_OPEN, statistic=AVERAGE, minutes=1),
            target_value=MOST_CONNECTIONS * BUSY_PERCENT // 100,
            scale_out_cooldown=Duration.minutes(1),
            scale_in_cooldown=Duration.minutes(10),
        )

    def _watch(self, topic: sns.ITopic) -> None:
        count = partial(of_targets, self.balancer.load_balancer_full_name, self.targets.target_group_full_name)
        # Each zone is counted by itself: with a task in one of them, agents are sent there from all.
        unhealthy, healthy = count("UnHealthyHostCount", MAXIMUM), count("HealthyHostCount", MAXIMUM)
        for spec in (
            AlarmSpec("ntf-unhealthy", unhealthy, 1, UNHEALTHY_MINUTES),
            AlarmSpec("ntf-unreachable", healthy, 1, UNREACHABLE_MINUTES, below=True),
        ):
            add_alarm(self, spec, environment=self._environment, topic=topic)

    def _balancer(self) -> tuple[elb.NetworkLoadBalancer, elb.NetworkTargetGroup]:
        balancer = elb.NetworkLoadBalancer(
            self,
            "Load",
            load_balancer_name=f"{self._environment.prefix}ntf",
            vpc=self._vpc,
            internet_facing=True,
            security_groups=[self._outside],
            cross_zone_enabled=True,
        )
        accept(balancer, "ELB2", "A network load balancer logs connections only where it ends TLS itself")
        group = self._targets()
        listener = balancer.add_listener(
            "Agents", port=self.options.port, protocol=elb.Protocol.TCP, tcp_idle_timeout=QUIET
        )
        listener.add_target_groups("Sessions", group)
        return balancer, group

    def _targets(self) -> elb.NetworkTargetGroup:
        group = elb.NetworkTargetGroup(
            self,
            "Sessions",
            target_group_name=f"{self._environment.prefix}ntf",
            vpc=self._vpc,
            port=PORT,
            protocol=elb.Protocol.TCP,
            target_type=elb.TargetType.IP,
            preserve_client_ip=True,
            deregistration_delay=DRAINED,
            # ECS stops a task only after the delay: the task itself ends its sessions, once it has answered them.
            connection_termination=False,
            targets=[self.service.load_balancer_target(container_name="Ntf", container_port=PORT)],
            health_check=elb.HealthCheck(
                protocol=elb.Protocol.HTTP,
                port=str(HEALTH_PORT),
                path="/",
                interval=Duration.seconds(10),
                timeout=Duration.seconds(5),
                healthy_threshold_count=2,
                unhealthy_threshold_count=UNHEALTHY_AFTER,
            ),
        )
        # A task that is too busy for its health check would else lose all its agents at once, who then come to the others.
        # One that has died says so itself, as its sockets close.
        group.set_attribute("target_health_state.unhealthy.connection_termination.enabled", "false")
        return group
