"""Canaries: of a new version, match and dispatch first run a tenth of what comes, for ten minutes.

If an alarm goes off meanwhile, CodeDeploy leads everything back to the version before, and CloudFormation rolls the whole
deployment back. https://docs.aws.amazon.com/codedeploy/latest/userguide/deployment-steps-lambda.html
"""

from collections.abc import Mapping, Sequence

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.findings import accept, wildcard
from infra.functions import ComponentFunction
from infra.permissions import allow


class Canaries(Construct):
    """`watched` are the alarms by function."""

    def __init__(
        self, scope: Construct, construct_id: str, *, watched: Mapping[ComponentFunction, Sequence[cloudwatch.Alarm]]
    ) -> None:
        super().__init__(scope, construct_id)
        application = codedeploy.LambdaApplication(self, "Application")
        role = self._role(watched)
        for function, alarms in watched.items():
            codedeploy.LambdaDeploymentGroup(
                self,
                function.node.id,
                application=application,
                alias=function.live,
                deployment_config=codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_10_MINUTES,
                alarms=[*alarms],
                # CDK would add AWS's policy, which is for every function; what it needs is granted below.
                role=role.without_policy_updates(),
            ).node.add_dependency(role)

    def _role(self, functions: Mapping[ComponentFunction, object]) -> iam.Role:
        """https://docs.aws.amazon.com/codedeploy/latest/userguide/getting-started-create-service-role.html"""
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
        allow(role, "lambda: GetAlias UpdateAlias", *(function.function_arn for function in functions))
        allow(role, "lambda: GetProvisionedConcurrencyConfig", *(function.live_arn for function in functions))
        alarms = Stack.of(self).format_arn(
            service="cloudwatch", resource="alarm", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
        )
        allow(role, "cloudwatch: DescribeAlarms", alarms)
        accept(role, wildcard(self, alarms), "CloudWatch lists alarms for whoever may list all")
        return role
