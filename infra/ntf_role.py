"""What SimpleX's NTF server may do."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from clarion.networks import SIMPLEX
from clarion.networks.needs import Function
from infra.functions import Foundation
from infra.networks import allow_network, readable_secrets
from infra.permissions import allow, allow_key
from infra.secrets import secret_arn


class NtfRole(iam.Role):
    """Who the server runs as, also where it runs beside the stack, as it does beside the emulator."""

    def __init__(self, scope: Construct, construct_id: str, *, foundation: Foundation) -> None:
        super().__init__(scope, construct_id, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
        allow_network(self, foundation, SIMPLEX, Function.SERVER)
        secrets = readable_secrets(foundation, SIMPLEX, Function.SERVER).values()
        allow(self, "secretsmanager: GetSecretValue", *(secret_arn(Stack.of(self), name) for name in secrets))
        allow_key(self, foundation.data.key, "secretsmanager", "Decrypt")
