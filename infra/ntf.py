"""SimpleX's NTF server: Fargate tasks behind a network load balancer, in a stack of its own.

TLS ends in the tasks, for what agents sign is bound to its session: the balancer passes on TCP, and the agents' own addresses,
which the tasks' bounds go by. It is 16.43 dollars a month, and 3.65 for an address in each zone. The tasks lie in ingest's
network, where no NAT gateway is needed: see `infra.ingest`.
"""

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elb
from aws_cdk import aws_iam as iam
from constructs import Construct

from clarion.networks import SIMPLEX
from clarion.networks.needs import Function
from clarion.networks.simplex.settings import SimplexOptions
from infra.base import EnvironmentStack
from infra.config import EnvironmentConfig
from infra.findings import accept
from infra.image import NTF_COMMAND, STOP_SECONDS
from infra.networks import network_settings
from infra.options import NtfTasks
from infra.retention import log_group
from infra.stack import ClarionStack
from infra.task_image import container_image

PORT, HEALTH_PORT = 8974, 8975
"""Of the task, as `ntf.settings` has them."""
DRAINED = Duration.seconds(30)
"""How long the balancer leaves connections to a task that is to end, which closes them itself sooner."""
UNHEALTHY_AFTER = 2


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
        self.balancer = self._balancer()
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
            desired_count=self._ntf.tasks,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
            min_healthy_percent=100,
            max_healthy_percent=200,
            health_check_grace_period=Duration.seconds(60),
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            assign_public_ip=True,
            security_groups=[self._inside],
        )

    def _balancer(self) -> elb.NetworkLoadBalancer:
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
            # ECS stops a task only after the delay: the task itself ends its sessions.
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
        balancer.add_listener("Agents", port=self.options.port, protocol=elb.Protocol.TCP).add_target_groups(
            "Sessions", group
        )
        return balancer
