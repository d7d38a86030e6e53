"""What the doctor finds in an account that is not as a deployment needs it, thing by thing."""

from collections.abc import Iterable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.acm.models import acm_backends

from console.doctor import account, names, needs, parameters, quotas, stacks
from console.doctor.plan import Bootstrap, DeploymentPlan, PlannedStack
from console.doctor.report import Check, with_refusal
from tests.console.account import ACCOUNT, REGION, CloudFormation, Quotas, StackResource, fill_in, secret_arn

STACK = "clarion-prod-stack"
NEEDED = Bootstrap(6, "/cdk-bootstrap/hnb659fds/version")
MAKE = f"make bootstrap ACCOUNT={ACCOUNT} REGION={REGION}"
pytestmark = pytest.mark.usefixtures("aws")


def plan_of(*resources: tuple[str, dict[str, Any]], bootstrap: Bootstrap | None = None) -> DeploymentPlan:
    template = {f"R{number}": {"Type": kind, "Properties": given} for number, (kind, given) in enumerate(resources)}
    return DeploymentPlan((PlannedStack(STACK, {"Resources": template}, bootstrap=bootstrap),))


def the_only(checks: Iterable[Check]) -> Check:
    (check,) = checks
    return check


@pytest.mark.parametrize(("there", "todo"), [(None, MAKE), ("5", MAKE), ("6", None), ("28", None)])
def test_cdk_s_own_stack_must_be_there_and_new_enough(there: str | None, todo: str | None) -> None:
    if there:
        boto3.client("ssm").put_parameter(Name=NEEDED.parameter, Value=there, Type="String")

    assert the_only(account.check_bootstrap(plan_of(bootstrap=NEEDED), ACCOUNT, REGION)).todo == todo


def test_what_needs_no_bootstrap_is_not_told_to() -> None:
    assert list(account.check_bootstrap(plan_of(), ACCOUNT, REGION)) == []


@pytest.mark.parametrize("status", sorted(stacks.TODO))
def test_a_stack_that_can_not_be_deployed_over_says_what_to_do(aws: CloudFormation, status: str) -> None:
    aws.stacks[STACK], aws.states[STACK] = {}, status

    check = the_only(stacks.check_stacks(plan_of()))

    assert (check.name, check.found) == (f"stack {STACK}", status)
    assert check.todo
    assert "{" not in check.todo


def test_a_protected_stack_that_was_rolled_back_is_in_cdk_s_way(aws: CloudFormation) -> None:
    aws.stacks[STACK], aws.states[STACK] = {}, "ROLLBACK_COMPLETE"
    aws.protected.add(STACK)

    assert the_only(stacks.check_stacks(plan_of())).todo == stacks.PROTECTED


@pytest.mark.parametrize(
    ("secret_id", "name"), [("clarion-prod-apns", "clarion-prod-apns"), (secret_arn("apns"), "clarion-prod-apns")]
)
def test_a_secret_is_known_by_its_name(secret_id: str, name: str) -> None:
    assert names.secret_name(secret_id) == name


@pytest.mark.parametrize("status", ["CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"])
def test_a_stack_that_can_be_deployed_over_needs_nothing(aws: CloudFormation, status: str) -> None:
    aws.stacks[STACK], aws.states[STACK] = {}, status

    assert the_only(stacks.check_stacks(plan_of())).todo is None


def test_a_stack_at_work_is_waited_for(aws: CloudFormation) -> None:
    aws.stacks[STACK], aws.states[STACK] = {}, "UPDATE_IN_PROGRESS"

    assert (the_only(stacks.check_stacks(plan_of())).todo or "").startswith("wait")


def test_what_failed_first_is_the_cause(aws: CloudFormation) -> None:
    aws.stacks[STACK], aws.states[STACK] = {}, "CREATE_FAILED"
    aws.resources[STACK] = [
        StackResource("Fine", "any", "fine"),
        StackResource("Role", "any", "role", "CREATE_FAILED", "Resource creation cancelled"),
        StackResource("Table", "any", "table", "CREATE_FAILED", "It\nexists already"),
        StackResource("Queue", "any", "queue", "CREATE_FAILED", "later"),
    ]

    assert the_only(stacks.check_stacks(plan_of())).found == "CREATE_FAILED (Table: It exists already)"


CLUSTER = ("AWS::ECS::Cluster", {"ClusterName": "clarion-prod"})
MAKE_ROLE = "aws iam create-service-linked-role --aws-service-name ecs.amazonaws.com"


def test_the_first_cluster_of_an_account_finds_the_role_of_ecs_made() -> None:
    assert the_only(account.check_service_roles(plan_of(CLUSTER), {})).todo == MAKE_ROLE
    boto3.client("iam").create_role(RoleName="AWSServiceRoleForECS", AssumeRolePolicyDocument="{}")
    assert the_only(account.check_service_roles(plan_of(CLUSTER), {})).todo is None


def test_no_role_is_asked_for_where_ecs_is_deployed_or_not_used() -> None:
    owned = {"AWS::ECS::Cluster": {"clarion-prod"}}
    assert list(account.check_service_roles(plan_of(CLUSTER), owned)) == []
    assert list(account.check_service_roles(plan_of(), {})) == []


def secret(name: str) -> tuple[str, dict[str, Any]]:
    return "AWS::SecretsManager::Secret", {"Name": name}


def test_a_name_of_our_own_stack_is_not_taken(aws: CloudFormation) -> None:
    plan = plan_of(secret("clarion-prod-apns"), secret("clarion-prod-apns-sandbox"))
    arns = [
        boto3.client("secretsmanager").create_secret(Name=f"clarion-prod-apns{end}")["ARN"] for end in ("", "-sandbox")
    ]
    aws.stacks[STACK] = {}
    aws.resources[STACK] = [StackResource(arn, "AWS::SecretsManager::Secret", arn) for arn in arns]

    assert list(names.check_names(plan, stacks.owned(plan))) == []


@pytest.mark.parametrize("status", sorted(stacks.GONE))
def test_a_name_is_taken_that_the_stack_could_not_have(aws: CloudFormation, status: str) -> None:
    plan = plan_of(("AWS::DynamoDB::GlobalTable", {"TableName": "clarion-prod-leases"}))
    boto3.client("dynamodb").create_table(
        TableName="clarion-prod-leases",
        KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    aws.stacks[STACK] = {}
    aws.resources[STACK] = [StackResource("T", "AWS::DynamoDB::GlobalTable", "clarion-prod-leases", status)]

    check = the_only(names.check_names(plan, stacks.owned(plan)))

    assert (check.found, check.todo) == ("1 taken, by no stack of ours: clarion-prod-leases", names.TODO)


def test_a_secret_that_waits_for_its_deletion_keeps_its_name() -> None:
    boto3.client("secretsmanager").delete_secret(SecretId=fill_in("apns", "any"), RecoveryWindowInDays=30)

    assert the_only(names.check_names(plan_of(secret("clarion-prod-apns")), {})).todo == names.TODO


def test_what_a_network_left_behind_is_taken_back_and_what_is_left_beside_it_deleted() -> None:
    for name in ("simplex-storage-key", "apns"):
        fill_in(name, "any")
    plan = plan_of(secret("clarion-prod-simplex-storage-key"), secret("clarion-prod-apns"))

    found = {check.found.rpartition(": ")[2]: check.todo for check in names.check_names(plan, {})}

    assert found == {"clarion-prod-simplex-storage-key": names.IMPORT, "clarion-prod-apns": names.TODO}


def test_a_network_is_named_that_is_deployed_and_would_be_left_out(aws: CloudFormation) -> None:
    key, apns = (secret_arn(name) for name in ("simplex-storage-key", "apns"))
    owned = {
        "AWS::SecretsManager::Secret": {key, apns},
        "AWS::DynamoDB::GlobalTable": {"clarion-prod-zulip_servers", "clarion-prod-leases"},
    }
    with_zulip = plan_of(("AWS::DynamoDB::GlobalTable", {"TableName": "clarion-prod-zulip_servers"}))

    check = the_only(names.check_networks(with_zulip, owned))

    assert (check.name, check.todo) == ("network simplex", names.LEAVE)


def test_another_stage_s_names_are_not_ours() -> None:
    boto3.client("sqs").create_queue(QueueName="clarion-dev-apns")
    plan = plan_of(("AWS::SQS::Queue", {"QueueName": "clarion-prod-apns"}))

    assert the_only(names.check_names(plan, {})).todo is None
    boto3.client("sqs").create_queue(QueueName="clarion-prod-apns")
    assert the_only(names.check_names(plan, {})).todo == names.TODO


def published(value: str, aws: CloudFormation) -> DeploymentPlan:
    """A bucket, and what SSM has of its name."""
    aws.stacks[STACK] = {}
    aws.resources[STACK] = [StackResource("R0", "AWS::S3::Bucket", "clarion-prod-data-lake-1a2b")]
    boto3.client("ssm").put_parameter(Name="clarion-prod-lake", Value=value, Type="String")
    parameter = {"Name": "clarion-prod-lake", "Value": {"Ref": "R0"}}
    return plan_of(("AWS::S3::Bucket", {}), ("AWS::SSM::Parameter", parameter))


@pytest.mark.parametrize(("value", "good"), [("clarion-prod-data-lake-1a2b", True), ("somebody-s-bucket", False)])
def test_a_parameter_that_leads_elsewhere_is_found(aws: CloudFormation, value: str, *, good: bool) -> None:
    check = the_only(parameters.check_parameters(published(value, aws)))

    assert (check.found, check.todo is None) == (value, good)


def test_what_is_published_of_a_stack_that_is_not_there_is_not_looked_at() -> None:
    parameter = {"Name": "clarion-prod-lake", "Value": {"Ref": "R0"}}
    assert list(parameters.check_parameters(plan_of(("AWS::SSM::Parameter", parameter)))) == []


@pytest.mark.parametrize("status", sorted(stacks.OF_DATA))
def test_the_data_stack_is_another_thing_to_mend(aws: CloudFormation, status: str) -> None:
    name = "clarion-prod-data"
    aws.stacks[name], aws.states[name] = {}, status

    check = the_only(stacks.check_stacks(DeploymentPlan((PlannedStack(name, {"Resources": {}}),))))

    assert check.todo == stacks.OF_DATA[status].format(name=name) != stacks.TODO[status].format(name=name)


VPC: tuple[str, dict[str, Any]] = ("AWS::EC2::VPC", {})


def test_a_quota_that_the_others_have_used_up_is_to_be_raised(quotas_of: Quotas) -> None:
    for number in range(4):
        boto3.client("ec2").create_vpc(CidrBlock=f"10.{number}.0.0/16")

    check = the_only(quotas.check_quotas(plan_of(VPC), {}))

    assert check.found == "1 needed, 5 of 5 in use"
    assert (check.todo or "").endswith("--service-code vpc --quota-code L-F678F1CE --desired-value 6")


def test_what_the_stack_has_already_is_not_needed_again(quotas_of: Quotas) -> None:
    assert list(quotas.check_quotas(plan_of(VPC), {"AWS::EC2::VPC": {"vpc-1"}})) == []


def test_addresses_are_counted_too(quotas_of: Quotas) -> None:
    boto3.client("ec2").allocate_address(Domain="vpc")

    assert the_only(quotas.check_quotas(plan_of(("AWS::EC2::EIP", {})), {})).found == "1 needed, 1 of 5 in use"


def test_a_quota_that_nobody_knows_is_no_finding(quotas_of: Quotas) -> None:
    quotas_of.defaults.clear()

    check = the_only(quotas.check_quotas(plan_of(VPC), {}))

    assert (check.todo, "does not know" in check.found) == (None, True)


def source(concurrency: int) -> tuple[str, dict[str, Any]]:
    return "AWS::Lambda::EventSourceMapping", {"ScalingConfig": {"MaximumConcurrency": concurrency}}


STAGE = ("AWS::ApiGatewayV2::Stage", {"DefaultRouteSettings": {"ThrottlingRateLimit": 200}})
RESERVING = ("AWS::Lambda::Function", {"ReservedConcurrentExecutions": 200})


def test_functions_at_once_are_those_of_queues_and_api_or_what_is_set_aside() -> None:
    assert needs.functions_at_once(plan_of(source(20), source(4), STAGE)) == 64
    assert needs.functions_at_once(plan_of(source(20), STAGE, RESERVING)) == 300
    assert needs.functions_at_once(plan_of(source(120), STAGE, RESERVING)) == 320


def service(**strategy: Any) -> list[tuple[str, dict[str, Any]]]:
    rolling = {"DesiredCount": 2, "DeploymentConfiguration": {"MaximumPercent": 200}, "TaskDefinition": {"Ref": "R0"}}
    return [("AWS::ECS::TaskDefinition", {"Cpu": "512"}), ("AWS::ECS::Service", {**rolling, **strategy})]


def test_a_deployment_runs_old_and_new_tasks_on_what_they_are_bought_of() -> None:
    on_demand, spot = needs.fargate_processors(spot=False), needs.fargate_processors(spot=True)
    strategy = [{"CapacityProvider": "FARGATE_SPOT", "Weight": 1}]

    assert (on_demand(plan_of(*service())), spot(plan_of(*service()))) == (2.0, 0)
    cheap = plan_of(*service(CapacityProviderStrategy=strategy))
    assert (on_demand(cheap), spot(cheap)) == (0, 2.0)


def application(processors: int) -> tuple[str, dict[str, Any]]:
    return ("AWS::EMRServerless::Application", {"MaximumCapacity": {"Cpu": f"{processors} vCPU"}})


def test_jobs_of_all_applications_may_run_at_once() -> None:
    assert needs.spark_processors(plan_of(application(8), application(8), application(16))) == 32
    assert needs.spark_processors(plan_of(STAGE)) == 0


@pytest.fixture(name="quotas_of")
def _quotas(quotas: Quotas) -> Quotas:
    """Under another name than the module has that asks for them."""
    return quotas


def certified(domain: str, arn: str) -> DeploymentPlan:
    viewer = {"AcmCertificateArn": arn}
    front = {"DistributionConfig": {"Aliases": [domain], "ViewerCertificate": viewer}}
    own = {"DomainName": domain, "DomainNameConfigurations": [{"CertificateArn": arn}]}
    return plan_of(("AWS::CloudFront::Distribution", front), ("AWS::ApiGatewayV2::DomainName", own))


@pytest.fixture
def requested() -> str:
    made = boto3.client("acm").request_certificate(DomainName="*.example.org", ValidationMethod="DNS")
    return str(made["CertificateArn"])


def issue(arn: str) -> None:
    acm_backends[ACCOUNT][REGION]._certificates[arn].status = "ISSUED"


def test_a_certificate_that_waits_names_its_dns_record(requested: str) -> None:
    check = the_only(account.check_certificates(certified("push.example.org", requested)))

    assert check.name == "certificate of push.example.org"
    assert (check.todo or "").startswith("create the DNS record _")


@pytest.mark.parametrize(
    ("domain", "good"), [("push.example.org", True), ("a.push.example.org", False), ("example.org", False)]
)
def test_a_certificate_has_to_be_of_the_domain(requested: str, domain: str, *, good: bool) -> None:
    issue(requested)

    assert the_only(account.check_certificates(certified(domain, requested))).todo == (
        None if good else account.ANOTHER
    )


def test_a_certificate_that_is_not_there_is_found_missing() -> None:
    arn = f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/none"

    assert the_only(account.check_certificates(certified("push.example.org", arn))).todo == account.ANOTHER


def test_what_aws_refuses_is_a_finding_of_its_own() -> None:
    def refused() -> list[Check]:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not allowed"}}, "ListSecrets")

    check = the_only(with_refusal("names", refused))

    assert check.found == "AWS refuses ListSecrets: AccessDenied: not allowed"
    assert check.todo
