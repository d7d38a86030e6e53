"""When EventBridge Scheduler starts a job of the pipeline, and as whom."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs

from infra.jobs import Code, JobRole
from infra.permissions import allow

RETRIES = 5


@dataclass(frozen=True)
class JobStart:
    """What EMR is asked to run: `parameters` are spark-submit's, `arguments` the job's."""

    job: JobRole
    application: emr.CfnApplication
    code: Code
    parameters: str
    arguments: Sequence[str]
    timeout_minutes: int

    def request(self) -> Mapping[str, object]:
        """EventBridge Scheduler capitalises the names that the API has."""
        return {
            "ApplicationId": self.application.attr_application_id,
            "ClientToken": scheduler.ContextAttribute.execution_id,
            "ExecutionRoleArn": self.job.role_arn,
            "ExecutionTimeoutMinutes": self.timeout_minutes,
            "Name": self.job.job.lower(),
            "JobDriver": {
                "SparkSubmit": {
                    "EntryPoint": self.code.entry.s3_object_url,
                    "EntryPointArguments": self.arguments,
                    "SparkSubmitParameters": self.parameters,
                }
            },
        }


class JobSchedule(scheduler.CfnSchedule):
    """A start whose answer was lost is tried anew, and then the job may be done twice: it comes out the same.

    One that was refused to the end goes to `dead`. `scope` gets the role that starts it, too.
    """

    def __init__(
        self,
        scope: Stack,
        prefix: str,
        *,
        name: str,
        start: JobStart,
        expression: str,
        tried_for: Duration,
        dead: sqs.Queue | None,
    ) -> None:
        role = _starter(scope, f"{prefix}Starter", start)
        if dead:
            allow(role, "sqs: SendMessage", dead.queue_arn)
        letters = scheduler.CfnSchedule.DeadLetterConfigProperty(arn=dead.queue_arn) if dead else None
        super().__init__(
            scope,
            f"{prefix}Schedule",
            name=name,
            schedule_expression=expression,
            schedule_expression_timezone="UTC",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=f"arn:{Aws.PARTITION}:scheduler:::aws-sdk:emrserverless:startJobRun",
                role_arn=role.role_arn,
                input=scope.to_json_string(start.request()),
                dead_letter_config=letters,
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_retry_attempts=RETRIES, maximum_event_age_in_seconds=tried_for.to_seconds()
                ),
            ),
        )
        self.node.add_dependency(role)


def _starter(scope: Stack, name: str, start: JobStart) -> iam.Role:
    of_this_account = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
    trusted = iam.ServicePrincipal("scheduler.amazonaws.com", conditions=of_this_account)
    role = iam.Role(scope, name, assumed_by=trusted)
    allow(role, "emr-serverless: StartJobRun", start.application.attr_arn)
    to_emr = {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}}
    passing = iam.PolicyStatement(actions=["iam:PassRole"], resources=[start.job.role_arn], conditions=to_emr)
    role.add_to_principal_policy(passing)
    return role
