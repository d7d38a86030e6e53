"""How long things are kept: logs for a set time, data beyond its stack where the environment says so."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.config import EnvironmentConfig, Lasting, LogDays

_RETENTION: dict[LogDays, logs.RetentionDays] = {
    7: logs.RetentionDays.ONE_WEEK,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}


def removal(environment: EnvironmentConfig) -> RemovalPolicy:
    """What becomes of data when its stack is deleted.

    What is kept goes all the same if the deployment that made it is rolled back: nothing is in it yet, and its name would
    be in the way of the next attempt.
    """
    keep = environment.data is Lasting.KEEP
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if keep else RemovalPolicy.DESTROY


def log_group(scope: Construct, construct_id: str, *, name: str, environment: EnvironmentConfig) -> logs.LogGroup:
    """A named group, so that a function may be allowed to write to its own alone."""
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=name,
        retention=_RETENTION[environment.log_days],
        removal_policy=RemovalPolicy.DESTROY,
    )
