"""The secrets that an operator fills in; docs/operations.md, "Secrets", shows their form."""

from dataclasses import dataclass

from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.config import App, Environment
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
WHY_MADE_ELSEWHERE = "Apple, Google or the tokens' issuer make it: an operator puts another one here by hand"


@dataclass(frozen=True)
class ProviderSecrets:
    """The ARNs of what lets an app in at one provider; `sandbox` if that of Apple's sandbox is another."""

    key: str
    sandbox: str | None = None


class Secrets(Construct):
    """Their ARNs. Each starts as random letters: no provider accepts them, so what is not filled in shows as `misconfigured`.

    Those of the standalone login and of CloudFront are ready as they are: nobody outside has to know them.
    """

    def __init__(self, scope: Construct, construct_id: str, *, environment: Environment, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._key = key
        self.apns = {app: self._apns(app) for app in environment.apps if app.bundle_id}
        self.fcm = {app: self._fcm(app) for app in environment.apps if app.fcm}
        api = environment.api
        self.jwt = self._secret("jwt", "What client tokens are checked with") if api.jwt_issuer else None
        self.login = self._secret("login", "The key of the standalone login", made=MADE) if api.login_domain else None
        self.origin = self._secret("origin", "What CloudFront tells the API", made=MADE) if api.per_address else None

    def _apns(self, app: App) -> ProviderSecrets:
        name = self._named("apns", app)
        key = self._secret(name, "The key that signs provider tokens for APNs, for alerts and calls")
        sandboxed = self._secret(f"{name}-sandbox", "The same for Apple's sandbox") if app.apns_sandbox else None
        return ProviderSecrets(key, sandboxed)

    def _fcm(self, app: App) -> ProviderSecrets:
        return ProviderSecrets(self._secret(self._named("fcm", app), "The service account that sends by FCM"))

    def _named(self, provider: str, app: App) -> str:
        """The first app's secrets go by the provider's name alone."""
        return provider if app == self._environment.apps[0] else f"{provider}-{app.name}"

    def _secret(self, name: str, description: str, *, made: secretsmanager.SecretStringGenerator | None = None) -> str:
        secret = secretsmanager.Secret(
            self,
            name.title(),
            secret_name=f"{self._environment.prefix}{name}",
            description=description,
            encryption_key=self._key,
            generate_secret_string=made,
            removal_policy=removal(self._environment),
        )
        accept(secret, "SMG4", WHY_MADE_HERE if made else WHY_MADE_ELSEWHERE)
        resource = secret.node.default_child
        if not isinstance(resource, secretsmanager.CfnSecret):
            raise TypeError(f"CDK has made {name} of something else")
        # Its ARN: a reference means the same to AWS, but a bare name to the emulator.
        return resource.attr_id
