"""What an operator pastes from docs/operations.md starts the pipeline's jobs, by AWS's own command line.

The stand-in for AWS is moto's server, with CloudFormation's beside it; the words of a job are read by the job's own
command line.
"""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import boto3
import httpx
import pytest

from local.leash import leashed
from local.ports import reserved_port
from tests.console.account import CloudFormation
from tests.pages import ROOT, scripts, section
from tests.warm_aws import serving

PAGE = "docs/operations.md"
STACK, REGION = "clarion-prod-pipeline", "us-east-1"
PIPELINE = ROOT / ".venv-pipeline" / "bin"
"""Moto's server is there, and the pipeline."""
START_S = 120
PLACES = {"Lake": "s3://the-lake", "Oversize": "s3://the-large", "EntryPoint": "s3://code/__main__.py"}
ROLES = {job: f"arn:aws:iam::123456789012:role/{job.lower()}" for job in ("Daily", "Replay", "Retire")}
SPAN = ["--from", "2026-11-19", "--to", "2026-11-20"]
READ = "import sys; from pipeline import arguments; arguments.parse(sys.argv[1:])"


class Account(NamedTuple):
    variables: Mapping[str, str]
    applications: Mapping[str, str]
    """Their ids by name."""

    def client(self, service: str) -> Any:
        session = boto3.Session("test", "test", region_name=REGION)
        return session.client(service, endpoint_url=self.variables["AWS_ENDPOINT_URL"])  # type: ignore[call-overload]

    def run(self, script: str) -> None:
        """Each command has to succeed."""
        command = ["/bin/bash", "-euo", "pipefail", "-c", script]
        ended = subprocess.run(
            command, env={**self.variables}, capture_output=True, text=True, check=False, timeout=120
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def started(self, application: str) -> list[Any]:
        """The runs of an application, as they were asked for."""
        emr, here = self.client("emr-serverless"), self.applications[application]
        runs = emr.list_job_runs(applicationId=here)["jobRuns"]
        return [emr.get_job_run(applicationId=here, jobRunId=run["id"])["jobRun"] for run in runs]


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    """With what the pipeline's stack has left there."""
    with reserved_port() as port, serving() as folder, CloudFormation() as stacks:
        Thread(target=stacks.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{port}"
        server = leashed(3, PIPELINE / "moto_server", "--port", str(port))
        with subprocess.Popen(server, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                _await(address)
                yield _made(address, stacks, folder)
            finally:
                process.communicate()
                stacks.shutdown()


def _await(address: str) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            httpx.get(f"{address}/moto-api/data.json")
        except httpx.TransportError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


def _made(address: str, stacks: CloudFormation, folder: Path) -> Account:
    variables = {
        "PATH": f"{folder}:{os.environ['PATH']}", "AWS_ENDPOINT_URL": address, "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_ENDPOINT_URL_CLOUDFORMATION": stacks.url,
    }  # fmt: skip
    applications: dict[str, str] = {}
    account = Account(variables, applications)
    for name in ("daily", "repairs", "watch"):
        emr = account.client("emr-serverless")
        # Moto knows no later release.
        made = emr.create_application(name=f"clarion-prod-{name}", releaseLabel="emr-6.6.0", type="SPARK")
        applications[name] = made["applicationId"]
    outputs = {
        **PLACES,
        **{f"{job}RoleArn": arn for job, arn in ROLES.items()},
        **{f"{job}Parameters": f"--conf spark.of={job} --conf spark.executor.cores=4" for job in ROLES},
        **{f"{name.title()}ApplicationId": made for name, made in applications.items()},
    }
    stacks.stacks[STACK] = outputs
    return account


@pytest.fixture(scope="module")
def started(account: Account) -> Account:
    """After all of the page's blocks that start a job, and a removal."""
    functions, repairs, daily, _ = scripts(section(PAGE, "The pipeline"))
    account.run(f"{functions}\n{repairs}\nretire --dead-days 40\n{daily}")
    return account


def asked(run: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Of a run, the name and the words of its job."""
    return run["name"], run["jobDriver"]["sparkSubmit"]["entryPointArguments"]


def test_each_job_is_asked_for_by_its_words(started: Account) -> None:
    places = ["--lake", PLACES["Lake"], "--oversize", PLACES["Oversize"]]
    counted = ["--strict", "--stage", "prod", "--stream", "clarion-prod-events"]
    assert [asked(run) for run in started.started("daily")] == [("daily", ["daily", *places, *counted, *SPAN])]
    assert sorted(asked(run) for run in started.started("repairs")) == sorted(
        [
            ("replay", ["replay", *places, *SPAN, "--dry-run"]),
            ("replay", ["replay", *places, *SPAN, "--per-second", "50"]),
            ("retire", ["retire", *places, "--dead-days", "40"]),
        ]
    )


def test_each_job_runs_as_itself_by_what_the_stack_says(started: Account) -> None:
    for run in (*started.started("daily"), *started.started("repairs")):
        job, submitted = run["name"].title(), run["jobDriver"]["sparkSubmit"]
        assert run["executionRole"] == ROLES[job]
        assert submitted["entryPoint"] == PLACES["EntryPoint"]
        assert submitted["sparkSubmitParameters"] == f"--conf spark.of={job} --conf spark.executor.cores=4"


def test_a_jobs_own_command_line_understands_its_words(started: Account) -> None:
    for run in (*started.started("daily"), *started.started("repairs")):
        _, words = asked(run)
        subprocess.run([PIPELINE / "python", "-c", READ, *words], cwd=ROOT, check=True, timeout=120)


def test_yesterdays_page_is_fetched_from_where_the_report_writes_it(account: Account, tmp_path: Path) -> None:
    functions, _, _, page = scripts(section(PAGE, "The pipeline"))
    s3 = account.client("s3")
    s3.create_bucket(Bucket="the-lake")
    midnight = int(time.time()) // 86_400 * 86_400_000
    name = f"reports/from={midnight - 86_400_000}/to={midnight}/report.html"
    s3.put_object(Bucket="the-lake", Key=name, Body=b"the page")
    here = page.replace("/tmp/", f"{tmp_path}/").replace("xdg-open", "cat")  # noqa: S108 - it is the page's
    account.run(f"{functions}\n{here}")
    assert (tmp_path / "report.html").read_text() == "the page"


def test_the_watch_is_stopped_for_a_deployment_and_goes_on_after_it(account: Account) -> None:
    scheduler = account.client("scheduler")
    target = {"Arn": "arn:aws:scheduler:::aws-sdk:emrserverless:startJobRun", "RoleArn": ROLES["Daily"], "Input": "{}"}
    known = {"ScheduleExpression": "rate(5 minutes)", "FlexibleTimeWindow": {"Mode": "OFF"}, "Target": target}
    scheduler.create_schedule(Name="clarion-prod-watch", State="ENABLED", **known)

    def shown() -> tuple[str, dict[str, Any]]:
        """Its state, and what doesn't change with that."""
        answer = scheduler.get_schedule(Name="clarion-prod-watch")
        left_out = {"State", "LastModificationDate", "ResponseMetadata"}
        return answer["State"], {name: value for name, value in answer.items() if name not in left_out}

    _, before = shown()
    account.client("emr-serverless").start_application(applicationId=account.applications["watch"])
    (stopping,) = scripts(section(PAGE, "Watching for losses"))
    account.run(stopping)
    assert shown() == ("DISABLED", before)
    application = account.client("emr-serverless").get_application(applicationId=account.applications["watch"])
    assert application["application"]["state"] == "STOPPED"
    function = stopping.partition("schedule DISABLED")[0]
    account.run(f"{function}\nschedule ENABLED")
    assert shown() == ("ENABLED", before)
