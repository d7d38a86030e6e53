"""The secrets that an operator fills in; docs/operations.md, "Secrets", shows their form."""

from dataclasses import dataclass

from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.config import Environment
from infra.findings import accept
from infra.retention import removal

MADE = secretsmanager.SecretStringGenerator(
    secret_string_template="{}",  # noqa: S106 - what is generated goes into this
    generate_string_key="secret",
    password_length=64,
    exclude_punctuation=True,
)
"""A secret that nobody outside has to know, in the form that the API reads."""


@dataclass(frozen=True)
class KeptSecret:
    """`arn` is CloudFormation's attribute `Id`: a reference means the same to AWS, but a bare name to the emulator."""

    arn: str


class Secrets(Construct):
    """Each starts as random letters: no provider accepts them, so what is not filled in shows as `misconfigured`.

    Only that of the standalone login is ready as it is.
    """

    def __init__(self, scope: Construct, construct_id: str, *, environment: Environment, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._key = key
        self.apns = self._secret("apns", "The key that signs provider tokens for APNs, for alerts and calls")
        self.fcm = self._secret("fcm", "The service account that sends by FCM")
        api = environment.api
        self.jwt = self._secret("jwt", "What client tokens are checked with") if api.jwt_issuer else None
        self.login = self._secret("login", "The key of the standalone login", made=MADE) if api.login_domain else None

    def _secret(
        self, name: str, description: str, *, made: secretsmanager.SecretStringGenerator | None = None
    ) -> KeptSecret:
        secret = secretsmanager.Secret(
            self,
            name.title(),
            secret_name=f"{self._environment.prefix}{name}",
            description=description,
            encryption_key=self._key,
            generate_secret_string=made,
            removal_policy=removal(self._environment),
        )
        accept(secret, "SMG4", "Apple, Google and the tokens' issuer make these: an operator rotates them by hand")
        resource = secret.node.default_child
        if not isinstance(resource, secretsmanager.CfnSecret):
            raise TypeError(f"CDK has made {name} of something else")
        return KeptSecret(resource.attr_id)
