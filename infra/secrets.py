"""The secrets that an operator fills in; docs/operations.md, "Secrets", shows their form."""

from dataclasses import dataclass

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from clarion.channels import PROVIDERS, Provider
from clarion.networks import network
from infra.config import AppConfig, EnvironmentConfig
from infra.findings import accept
from infra.retention import removal

MADE = secretsmanager.SecretStringGenerator(
    secret_string_template="{}",  # noqa: S106 - what is generated goes into this
    generate_string_key="secret",
    password_length=64,
    exclude_punctuation=True,
)
"""A secret that nobody outside has to know, in the form that the API reads."""
WHY_MADE_HERE = "Another value at once ends what was begun with the old one: sign-ins, or the way through CloudFront"
WHY_MADE_ELSEWHERE = "Apple, Google, the tokens' issuer or an operator makes it, who puts another one here by hand"


@dataclass(frozen=True)
class ProviderSecrets:
    """The names of what lets an app in at one provider; `sandbox` if that of its sandbox is another."""

    key: str
    sandbox: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.key, self.sandbox) if self.sandbox else (self.key,)


class Secrets(Construct):
    """Their names. Each starts as random letters: no provider accepts them, so what is not filled in shows as `misconfigured`.

    Those of the standalone login and of CloudFront, and what networks have made, are ready as they are: nobody outside
    has to know them.
    """

    def __init__(self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._key = key
        self.providers = {provider: self._of_apps(provider) for provider in environment.deployed_providers}
        self.networks = {
            name: {secret: self._of_network(name, secret) for secret in network(name).needs.secrets}
            for name in environment.networks
        }
        api = environment.api
        self.jwt = self._secret("jwt", "What client tokens are checked with") if api.jwt_issuer else None
        self.login = self._secret("login", "The key of the standalone login", made=MADE) if api.login_domain else None
        self.origin = self._secret("origin", "What CloudFront sends the API", made=MADE) if api.per_address else None

    @property
    def required_origin(self) -> str | None:
        """The secret without which the API answers nothing."""
        per_address = self._environment.api.per_address
        return None if per_address and per_address.around else self.origin

    def _of_network(self, name: str, secret: str) -> str:
        made = secret in network(name).needs.made_secrets
        return self._secret(secret, f"For {name}", made=MADE if made else None)

    def _of_apps(self, provider: Provider) -> dict[AppConfig, ProviderSecrets]:
        return {app: self._of_app(provider, app) for app in self._environment.apps if provider in app.providers}

    def _of_app(self, provider: Provider, app: AppConfig) -> ProviderSecrets:
        """The first app's secrets go by the provider's name alone."""
        row = PROVIDERS[provider]
        name = provider if app == self._environment.apps[0] else f"{provider}-{app.name}"
        key = self._secret(name, row.secret)
        sandbox = row.sandbox_secret if app.apns_sandbox else None
        return ProviderSecrets(key, self._secret(f"{name}-sandbox", sandbox) if sandbox else None)

    def _secret(self, name: str, description: str, *, made: secretsmanager.SecretStringGenerator | None = None) -> str:
        full_name = f"{self._environment.prefix}{name}"
        secret = secretsmanager.Secret(
            self,
            name.title(),
            secret_name=full_name,
            description=description,
            encryption_key=self._key,
            generate_secret_string=made,
            removal_policy=removal(self._environment),
        )
        accept(secret, "SMG4", WHY_MADE_HERE if made else WHY_MADE_ELSEWHERE)
        return full_name


def secret_arn(stack: Stack, name: str) -> str:
    """For a policy: Secrets Manager ends each ARN with six letters of its own.

    https://docs.aws.amazon.com/secretsmanager/latest/userguide/auth-and-access_examples.html
    """
    return stack.format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=f"{name}-??????",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
