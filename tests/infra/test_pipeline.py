"""The pipeline's stack: what runs on EMR Serverless, as whom, when, and how its end is heard."""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from aws_cdk import App
from aws_cdk.assertions import Template
from botocore.validate import validate_parameters
from pydantic import ValidationError

from bench.idle_bill import HOURS, WORKER_HOUR
from clarion import events, subscription_events
from clarion.metrics import NAMESPACE
from infra.app import add_stacks, define_alone
from infra.config import EnvironmentConfig, Pipeline, Platform
from infra.environments import EMULATOR, ENVIRONMENTS, PROD
from infra.jobs import (
    DISK_GIGABYTES,
    GIGABYTES,
    ONLY_WRITTEN,
    PLANNED,
    VCPUS,
    WORKER,
    WRITTEN_BY_REPLAY,
    WRITTEN_BY_WATCH,
    WRITTEN_DAILY,
)
from infra.pipeline import WATCH_WORKERS, PipelineStack
from infra.spark_bundle import OF_THE_RELEASE, REQUIREMENTS, code_archive, needed, packages_archive
from local.emulator import Emulator, started
from tests.grants import PREFIX, Permissions, Resource, of_kind, permissions_of_job, readable

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

DOCS = Path(__file__).parents[2] / "docs"
KINDS = ("AWS::EMRServerless::Application", "AWS::IAM::Role", "AWS::Scheduler::Schedule")
LOG = "/aws/emr-serverless/clarion-prod-pipeline"


@pytest.fixture(scope="module")
def resources(pipeline: Template) -> Mapping[str, Resource]:
    return pipeline.to_json()["Resources"]  # type: ignore[no-any-return] # a template is JSON


@pytest.fixture(scope="module")
def outputs(pipeline: Template) -> Mapping[str, str]:
    return {name: readable(output["Value"]) for name, output in pipeline.to_json()["Outputs"].items()}


def running(*services: str) -> Permissions:
    """What every job may."""
    return {
        "logs:CreateLogStream": {"Log"},
        "logs:DescribeLogStreams": {"Log"},
        "logs:PutLogEvents": {"Log"},
        "logs:DescribeLogGroups": {"*"},
        "s3:ListBucket": {"DataLake"},
        **{action: {f"key by way of {each}" for each in services} for action in ("kms:Decrypt", "kms:GenerateDataKey")},
    }


def writing(*folders: str) -> Permissions:
    """Into these folders of the lake; from those that are not `ONLY_WRITTEN` a job removes as well."""
    objects = {f"DataLake/{folder}/*" for folder in folders}
    removed = {f"DataLake/{folder}/*" for folder in folders if folder not in ONLY_WRITTEN}
    return {
        **dict.fromkeys(("s3:AbortMultipartUpload", "s3:PutObject"), objects),
        **({"s3:DeleteObject": removed} if removed else {}),
    }


LARGE: Permissions = {"s3:ListBucket": {"DataLake", "DataOversize"}}
PERMITTED: Mapping[str, Permissions] = {
    "DailyRole": {**running("s3"), **LARGE, **writing(*WRITTEN_DAILY), "cloudwatch:GetMetricData": {"*"}},
    "ReplayRole": {
        **running("s3"),
        **LARGE,
        **(written := writing(*WRITTEN_BY_REPLAY)),
        "s3:PutObject": {*written["s3:PutObject"], f"DataLake/{PLANNED}*"},
        "sqs:SendMessage": {"QueuesEnvelopes"},
    },
    "RetireRole": {
        **running("s3", "dynamodb"),
        "kms:GenerateDataKey": {"key by way of dynamodb"},
        "dynamodb:BatchGetItem": {f"{PREFIX}subscriptions"},
        "dynamodb:DeleteItem": {f"{PREFIX}{name}" for name in ("subscriptions", "tokens", "wake_ups")},
        "dynamodb:Query": {f"{PREFIX}rules"},
        "dynamodb:BatchWriteItem": {f"{PREFIX}rules"},
        "firehose:PutRecordBatch": {"LakeEvents"},
        "sqs:SendMessage": {"QueuesLateEvents"},
    },
}


@pytest.mark.parametrize("role", PERMITTED)
def test_a_job_may_do_exactly_what_it_needs(resources: Mapping[str, Resource], role: str) -> None:
    granted = permissions_of_job(resources, role)
    read = granted.pop("s3:GetObject")
    code = {name for name in read if name.startswith("cdk-")}
    large = {"DataOversize/envelopes/*"} if "DataOversize" in PERMITTED[role]["s3:ListBucket"] else set()
    assert read - code == {"DataLake/*"} | large
    assert sorted(name.rpartition(".")[2] for name in code) == ["py", "zip", "zip"]
    assert granted == PERMITTED[role]


def test_the_schedule_may_start_the_daily_job_and_no_other(resources: Mapping[str, Resource]) -> None:
    assert permissions_of_job(resources, "Starter") == {
        "emr-serverless:StartJobRun": {"Daily"},
        "iam:PassRole": {"DailyRole"},
        "sqs:SendMessage": {"Dead"},
    }


def test_no_role_is_left_out_and_each_is_trusted_to_its_own_application(resources: Mapping[str, Resource]) -> None:
    roles = of_kind(resources, "AWS::IAM::Role")
    assert roles.keys() == {*PERMITTED, "Starter"}
    for name, application in (("DailyRole", "Daily"), ("ReplayRole", "Repairs"), ("RetireRole", "Repairs")):
        (statement,) = roles[name]["AssumeRolePolicyDocument"]["Statement"]
        assert statement["Principal"] == {"Service": "emr-serverless.amazonaws.com"}
        assert readable(statement["Condition"]["ArnLike"]["aws:SourceArn"]) == application


def test_the_daily_folders_are_those_of_every_event(resources: Mapping[str, Resource]) -> None:
    recorded = [*vars(events).values(), *vars(subscription_events).values()]
    models = [one for one in recorded if isinstance(one, type) and issubclass(one, events.Event)]
    kinds = {model.model_fields["event"].default for model in models if "event" in model.model_fields}
    others = {"unreadable", "differences", "reports", "snapshots", "manifests", "symlinks"}
    assert kinds == set(WRITTEN_DAILY) - others


def test_applications_run_arm_one_job_at_a_time_within_their_capacity(resources: Mapping[str, Resource]) -> None:
    applications = of_kind(resources, "AWS::EMRServerless::Application")
    assert applications.keys() == {"Daily", "Repairs"}
    assert "stop after one idle minute:" in (DOCS / "operations.md").read_text()
    for application in applications.values():
        assert (application["ReleaseLabel"], application["Architecture"]) == ("emr-spark-8.1.0", "ARM64")
        assert application["AutoStopConfiguration"] == {"Enabled": True, "IdleTimeoutMinutes": 1}
        assert application["MaximumCapacity"] == {"Cpu": "8 vCPU", "Memory": "32 GB", "Disk": "200 GB"}
        assert application["SchedulerConfiguration"] == {"MaxConcurrentRuns": 1}
        assert "InitialCapacity" not in application  # which would cost while nothing runs


def test_a_driver_or_executor_fills_a_worker(resources: Mapping[str, Resource]) -> None:
    for one in ("driver", "executor"):
        sizes = [WORKER[f"spark.{one}.{part}"] for part in ("memory", "memoryOverhead")]
        assert sum(int(size.removesuffix("g")) for size in sizes) == GIGABYTES
        assert WORKER[f"spark.{one}.cores"] == str(VCPUS)
        assert WORKER[f"spark.emr-serverless.{one}.disk"] == f"{DISK_GIGABYTES}g"


def test_all_executors_are_there_from_the_beginning_to_the_end_and_fit_beside_the_driver(
    outputs: Mapping[str, str],
) -> None:
    asked = dict(re.findall(r"--conf (\S+?)=(\S+)", outputs["DailyParameters"]))
    assert PROD.pipeline
    assert asked["spark.executor.instances"] == str(PROD.pipeline.workers - 1)
    assert asked["spark.dynamicAllocation.enabled"] == "false"


def test_both_lie_in_the_network_of_ingest_and_nobody_can_call_them(resources: Mapping[str, Resource]) -> None:
    (group,) = of_kind(resources, "AWS::EC2::SecurityGroup").values()
    for application in of_kind(resources, "AWS::EMRServerless::Application").values():
        assert len(application["NetworkConfiguration"]["SubnetIds"]) == 2
    assert "SecurityGroupIngress" not in group


def test_the_network_gives_workers_the_public_addresses_that_lead_out(prod: Template) -> None:
    """EMR Serverless has no setting for it, as ECS has."""
    subnets = prod.find_resources("AWS::EC2::Subnet").values()
    assert [each["Properties"]["MapPublicIpOnLaunch"] for each in subnets] == [True, True]


def test_where_ingest_runs_elsewhere_there_is_nothing_to_repair_with_and_nothing_is_counted() -> None:
    changed = EnvironmentConfig.model_validate({**dict(PROD), "ingest": None})
    app = App(context={"aws:cdk:disable-asset-staging": True})
    add_stacks(app, changed)
    stack = app.node.find_child(f"{PREFIX}pipeline")
    assert isinstance(stack, PipelineStack)
    assert stack.applications.keys() == {"daily"}
    resources = Template.from_stack(stack).to_json()["Resources"]
    (application,) = of_kind(resources, "AWS::EMRServerless::Application").values()
    (schedule,) = of_kind(resources, "AWS::Scheduler::Schedule").values()
    assert "NetworkConfiguration" not in application
    started = readable(schedule["Target"]["Input"])
    assert "--stream" not in started
    assert "--assume-quiet" in started


def test_the_schedule_asks_emr_for_what_its_api_takes(resources: Mapping[str, Resource]) -> None:
    (schedule,) = of_kind(resources, "AWS::Scheduler::Schedule").values()
    target = schedule["Target"]
    assert (schedule["ScheduleExpression"], schedule["ScheduleExpressionTimezone"]) == ("cron(0 2 * * ? *)", "UTC")
    assert readable(target["DeadLetterConfig"]["Arn"]) == "Dead"
    service = boto3.Session(region_name="us-east-1").client("emr-serverless").meta.service_model
    asked = camel(json.loads(readable(target["Input"])))
    # The names above stand for what has other letters once it is deployed.
    asked["executionRoleArn"] = "arn:aws:iam::000000000000:role/daily"
    asked["applicationId"] = "0123456789abcdef"
    validate_parameters(asked, service.operation_model("StartJobRun").input_shape)
    assert asked["jobDriver"]["sparkSubmit"]["entryPointArguments"] == [
        "daily",
        "--strict",
        "--stage",
        "prod",
        "--lake",
        "s3://DataLake",
        "--oversize",
        "s3://DataOversize",
        "--stream",
        "clarion-prod-events",
    ]


@pytest.fixture(scope="module")
def watching() -> Mapping[str, Resource]:
    """Production's, with losses watched for, and more workers for the others."""
    assert PROD.pipeline
    changed = PROD.model_copy(update={"pipeline": PROD.pipeline.model_copy(update={"watch_minutes": 5, "workers": 6})})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENVIRONMENTS, "prod", EnvironmentConfig.model_validate(dict(changed)))
        live = define_alone("prod", builtin_cloud_formation_validation=False)
    stack = live.node.root.node.find_child(f"{PREFIX}pipeline")
    assert isinstance(stack, PipelineStack)
    return Template.from_stack(stack).to_json()["Resources"]  # type: ignore[no-any-return] # a template is JSON


def test_losses_are_watched_for_only_where_it_is_asked_for(
    resources: Mapping[str, Resource], watching: Mapping[str, Resource]
) -> None:
    added = {kind: of_kind(watching, kind).keys() - of_kind(resources, kind).keys() for kind in KINDS}
    assert added == {
        "AWS::EMRServerless::Application": {"Watch"},
        "AWS::IAM::Role": {"WatchRole", "WatchStarter"},
        "AWS::Scheduler::Schedule": {"WatchSchedule"},
    }


def test_the_watch_begins_every_few_minutes_in_an_application_of_its_own(watching: Mapping[str, Resource]) -> None:
    schedule = of_kind(watching, "AWS::Scheduler::Schedule")["WatchSchedule"]
    run = json.loads(readable(schedule["Target"]["Input"]))
    assert schedule["ScheduleExpression"] == "rate(5 minutes)"
    assert (run["ApplicationId"], run["ExecutionRoleArn"]) == ("Watch", "WatchRole")
    assert run["JobDriver"]["SparkSubmit"]["EntryPointArguments"] == [
        *("watch", "--once", "--stage", "prod", "--overdue-seconds", "180"),
        *("--lake", "s3://DataLake", "--oversize", "s3://DataOversize"),
    ]
    assert permissions_of_job(watching, "WatchStarter") == {
        "emr-serverless:StartJobRun": {"Watch"},
        "iam:PassRole": {"WatchRole"},
    }


def test_the_watch_has_two_workers_of_its_own_and_runs_wait_for_one_another_no_longer_than_they_have_to(
    watching: Mapping[str, Resource],
) -> None:
    application = of_kind(watching, "AWS::EMRServerless::Application")["Watch"]
    assert application["MaximumCapacity"] == {"Cpu": "8 vCPU", "Memory": "32 GB", "Disk": "200 GB"}
    assert application["SchedulerConfiguration"] == {"MaxConcurrentRuns": 1, "QueueTimeoutMinutes": 15}
    schedule = of_kind(watching, "AWS::Scheduler::Schedule")["WatchSchedule"]
    run = json.loads(readable(schedule["Target"]["Input"]))
    assert run["ExecutionTimeoutMinutes"] == 120
    assert "spark.executor.instances=1 " in run["JobDriver"]["SparkSubmit"]["SparkSubmitParameters"]


def test_each_job_logs_warnings_alone(outputs: Mapping[str, str]) -> None:
    for job in ("Daily", "Replay", "Retire"):
        assert "--conf spark.log.level=WARN" in outputs[f"{job}Parameters"]


def test_the_watch_may_write_what_it_commits_and_record_our_own_metrics_alone(
    watching: Mapping[str, Resource],
) -> None:
    granted = permissions_of_job(watching, "WatchRole")
    granted.pop("s3:GetObject")
    assert granted == {**running("s3"), **LARGE, **writing(*WRITTEN_BY_WATCH), "cloudwatch:PutMetricData": {"*"}}
    statements = of_kind(watching, "AWS::IAM::Policy")["WatchRoleDefaultPolicy"]["PolicyDocument"]["Statement"]
    (recording,) = [each for each in statements if each["Action"] == "cloudwatch:PutMetricData"]
    assert recording["Condition"] == {"StringEquals": {"cloudwatch:namespace": NAMESPACE}}


def test_no_run_of_the_watch_counts_as_the_pipelines_success_or_failure(watching: Mapping[str, Resource]) -> None:
    rules = of_kind(watching, "AWS::Events::Rule")
    heard = {name: rule["EventPattern"]["detail"]["applicationId"] for name, rule in rules.items()}
    applications = {name: [readable(each) for each in of_rule] for name, of_rule in heard.items()}
    assert applications == {"Succeeded": ["Daily"], "Failed": ["Daily", "Repairs"]}
    assert "DeadLetterConfig" not in of_kind(watching, "AWS::Scheduler::Schedule")["WatchSchedule"]["Target"]


def test_the_page_says_what_watching_costs() -> None:
    page = (DOCS / "operations.md").read_text().partition("### Watching for losses")[2]
    run = WATCH_WORKERS * WORKER_HOUR * 2.5 / 60
    stated = [float(dollars) for dollars in re.findall(r"\b(\d{3}\.\d\d)\b", page)]
    costs = [run * HOURS * 60 / minutes for minutes in (5, 8)]
    assert stated == [round(each, 2) for each in (*costs, WATCH_WORKERS * WORKER_HOUR * HOURS)]


def test_nothing_is_watched_for_where_cloudwatch_is_out_of_reach() -> None:
    assert PROD.pipeline
    watched = PROD.pipeline.model_copy(update={"watch_minutes": 5})
    with pytest.raises(ValidationError, match="watch_minutes needs ingest"):
        EnvironmentConfig.model_validate({**dict(PROD), "ingest": None, "pipeline": dict(watched)})


def camel(value: Any) -> Any:
    """EventBridge Scheduler capitalises the names that the API has."""
    if isinstance(value, dict):
        return {name[0].lower() + name[1:]: camel(each) for name, each in value.items()}
    return value


def variables(parameters: str) -> dict[str, str]:
    """Of the driver."""
    return dict(re.findall(r"--conf spark\.emr-serverless\.driverEnv\.(\w+)=(\S+)", parameters))


def test_each_job_is_told_what_it_needs_and_no_more(outputs: Mapping[str, str]) -> None:
    parameters = {job: variables(outputs[f"{job}Parameters"]) for job in ("Daily", "Replay", "Retire")}
    settings = {job: {name for name in each if name.startswith("CLARION_")} for job, each in parameters.items()}
    assert settings == {
        "Daily": set(),
        "Replay": {"CLARION_ENVELOPES_QUEUE_URL"},
        "Retire": {"CLARION_TABLE_PREFIX", "CLARION_EVENTS_STREAM", "CLARION_LATE_EVENTS_QUEUE_URL"},
    }
    for each in parameters.values():
        assert each["PYSPARK_DRIVER_PYTHON"] == each["PYSPARK_PYTHON"] == "/usr/bin/python3.13"


def test_driver_and_executors_find_the_archives_where_spark_unpacks_them(outputs: Mapping[str, str]) -> None:
    settings = dict(re.findall(r"--conf (\S+?)=(\S+)", outputs["DailyParameters"]))
    unpacked = [f"./{archive.rpartition('#')[2]}" for archive in settings["spark.archives"].split(",")]
    for path in (settings["spark.emr-serverless.driverEnv.PYTHONPATH"], settings["spark.executorEnv.PYTHONPATH"]):
        assert sorted(path.split(":")) == sorted(unpacked)


def test_what_the_page_takes_from_the_outputs_is_there(outputs: Mapping[str, str]) -> None:
    _, _, section = (DOCS / "operations.md").read_text().partition("\n## The pipeline\n")
    asked = set(re.findall(r"\$\(pipeline_output (\w+)\)", section))
    for application, role in re.findall(r"start_job ([A-Z]\w+) ([A-Z]\w+)", section):
        given = {"application": application, "role": role}
        for parameter, output in re.findall(r'\$\(pipeline_output "\$\{(\w+)\}(\w+)"\)', section):
            asked.add(f"{given[parameter]}{output}")
    assert asked == outputs.keys()


def test_the_emulator_has_no_such_stack() -> None:
    assert EMULATOR.pipeline is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"release": "emr-7.13.0"},
        {"workers": 1},
        {"hour": 24},
        {"timeout_minutes": 1_440},
        {"watch_minutes": 4},
        {"vpc": "any"},
    ],
)
def test_a_wrong_configuration_stops_synthesis(wrong: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Pipeline.model_validate({"hour": 2, "workers": 4, **wrong})


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with started("test-pipeline") as emulator:
        yield emulator


def mentions(policy: Resource, rule: str) -> bool:
    """Whether a queue's policy lets `rule` send, and nothing else."""
    statements = policy["PolicyDocument"]["Statement"]
    sources = [each["Condition"]["ArnEquals"]["aws:SourceArn"] for each in statements if each["Effect"] == "Allow"]
    return [readable(source) for source in sources] == [rule]


@pytest.mark.parametrize(
    ("rule", "state", "heard"),
    [("Succeeded", "SUCCESS", True), ("Failed", "FAILED", True), ("Failed", "CANCELLED", True),
     ("Failed", "SUCCESS", False), ("Succeeded", "RUNNING", False)],
)  # fmt: skip
def test_the_end_of_a_run_reaches_the_queue_of_its_alarm(
    resources: Mapping[str, Resource], emulator: Emulator, rule: str, state: str, *, heard: bool
) -> None:
    pattern = dict(of_kind(resources, "AWS::Events::Rule")[rule]["EventPattern"])
    assert pattern.pop("source") == ["aws.emr-serverless"]  # which AWS alone may name
    pattern["detail"] = {**pattern["detail"], "applicationId": ["0123456789abcdef"]}
    session, url = emulator.session, emulator.endpoint
    events: Any = session.client("events", endpoint_url=url)
    sqs: SQSClient = session.client("sqs", endpoint_url=url)
    name = f"{rule}-{state}".lower()
    arn = f"arn:aws:sqs:us-east-1:000000000000:{name}"
    (policy,) = [each for each in of_kind(resources, "AWS::SQS::QueuePolicy").values() if mentions(each, rule)]
    (allowed,) = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    source = {"ArnEquals": {"aws:SourceArn": f"arn:aws:events:us-east-1:000000000000:rule/{name}"}}
    stated = {"Version": "2012-10-17", "Statement": [{**allowed, "Resource": arn, "Condition": source}]}
    queue = sqs.create_queue(QueueName=name, Attributes={"Policy": json.dumps(stated)})["QueueUrl"]
    events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    detail = {"applicationId": "0123456789abcdef", "jobRunId": "00abcdef01234567", "state": state}
    entry = {"Source": "the-test", "DetailType": "EMR Serverless Job Run State Change"}
    events.put_events(Entries=[{**entry, "Detail": json.dumps(detail)}])
    messages = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", [])
    assert [json.loads(each["Body"])["detail"] for each in messages] == ([detail] if heard else [])


def names_in(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


def test_the_release_brings_spark_and_the_archive_all_else() -> None:
    locked = REQUIREMENTS.read_text()
    names = re.compile(r"^([\w-]+)==", re.MULTILINE)
    assert set(names.findall(locked)) - set(names.findall(needed(locked))) == set(OF_THE_RELEASE)


def test_the_packages_for_emr_are_arm_libraries_without_spark() -> None:
    names = names_in(packages_archive(Platform.ARM64))
    libraries = [name for name in names if ".cpython-313" in name]
    assert libraries
    assert all("aarch64-linux-gnu" in name for name in libraries)
    assert not [name for name in names if name.partition("/")[0] in OF_THE_RELEASE]


def test_the_code_is_the_shared_library_and_the_jobs() -> None:
    names = names_in(code_archive())
    assert {name.partition("/")[0] for name in names} == {"clarion", "pipeline"}
    assert {"clarion/networks/statements/signature.py", "pipeline/cli.py", "pipeline/generator/day.py"} <= set(names)
