"""What the functions that clients reach read from their environment, and the authorizer before them."""

from collections.abc import Iterator, Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, Json, model_validator

from clarion.channels import Channel
from clarion.decisions import Environment, TokenProof
from clarion.issuers import JwksIssuer, issuer_name
from clarion.messages import NetworkName
from clarion.networks import STATEMENTS
from clarion.providers import apns, fcm
from clarion.settings import PUSHES_PER_TOKEN_PER_MINUTE, TITLE, EventSettings, Origin, Settings, Title
from clarion.tables import TRANSACTION_SUBSCRIPTIONS

MOST_RULES = 10_000
"""In one request."""


class DirectPushSettings(BaseModel):
    """What `POST /v1/notify` needs to reach the providers, as dispatch has it. `ca_file` replaces the public authorities."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    apns_secret_id: str
    apns_sandbox_secret_id: str | None = None
    fcm_secret_id: str
    bundle_id: str
    alert_title: Title = TITLE
    apns_url: Origin = apns.URLS[Environment.PRODUCTION]
    apns_sandbox_url: Origin = apns.URLS[Environment.SANDBOX]
    fcm_url: Origin = fcm.PRODUCTION
    ca_file: str | None = None
    pushes_per_minute: int = Field(default=60, gt=0)
    """Of one client."""
    pushes_per_token_per_minute: int = Field(default=PUSHES_PER_TOKEN_PER_MINUTE, gt=0)
    """To one device token, whoever pushes."""


class ClientSettings(EventSettings):
    """What every function that serves clients reads. Limits have defaults."""

    table_prefix: str
    cleanup_queue_url: str
    apps: Json[Mapping[Channel, frozenset[str]]]
    """The names of the apps that each channel reaches. A channel that is not among them is not deployed."""
    push_queues: Json[Mapping[Channel, str]]
    """The URLs of the queues that codes are sent to."""
    token_proof: TokenProof = TokenProof.TAKEOVER
    push_services: Json[tuple[str, ...]] = ()
    """Further hosts of browsers' push services, as `DispatchSettings.push_services`."""
    origin_secret_id: str | None = None
    """What CloudFront sends with each request; what comes around it is then refused."""

    subscriptions_per_client: int = Field(default=20, gt=0, le=TRANSACTION_SUBSCRIPTIONS)
    rules_per_subscription: int = Field(default=10_000, gt=0)
    rules_per_request: int = Field(default=MOST_RULES, gt=0, le=MOST_RULES)
    rules_per_page: int = Field(default=10_000, gt=0, le=20_000)
    body_bytes: int = Field(default=4_000_000, gt=0)
    requests_per_ten_seconds: int = Field(default=20, gt=0)
    """Of one client."""
    rules_per_minute: int = Field(default=30_000, gt=0)
    """Of one client: written or erased by changes of more than `TRANSACTION_RULES` rules."""
    looks_per_minute: int = Field(default=3, gt=0)
    """Of one client, at the deliveries of a subscription."""

    @model_validator(mode="after")
    def _a_full_set_can_be_replaced(self) -> Self:
        if self.rules_per_minute < 2 * self.rules_per_subscription:
            raise ValueError(
                "rules_per_minute has to be enough to replace the largest set: rules_per_subscription twice"
            )
        return self

    @model_validator(mode="after")
    def _every_channel_has_an_app(self) -> Self:
        if not (self.apps and all(self.apps.values())):
            raise ValueError("apps has to name one for each channel")
        return self


class ApiSettings(ClientSettings):
    """`networks` are those whose routes are served.

    The standalone login is on when `login_secret_id` and `login_domain` are set; direct push when `direct_push` is,
    a JSON object (`DirectPushSettings`).
    """

    networks: Json[tuple[NetworkName, ...]] = (STATEMENTS,)
    lake_bucket: str
    """Where the index of deliveries lies."""

    login_secret_id: str | None = None
    login_domain: str | None = None
    """The host name that clients know this service by; it is part of what they sign."""

    direct_push: Json[DirectPushSettings | None] = None

    serve_docs: bool = True
    """Whether `/docs` is there: a page of 1.7 MB, for anybody."""

    @model_validator(mode="after")
    def _login_is_whole(self) -> Self:
        if (self.login_secret_id is None) != (self.login_domain is None):
            raise ValueError("login_secret_id and login_domain go together")
        return self


class AuthorizerSettings(Settings):
    """Whose tokens count; each kind is there if it is configured, and at least one must be.

    `jwt_secret_id` names the secret `{"secret": …}` shared with the existing solution, whose tokens say
    `jwt_issuer` and `jwt_audience`; `login_secret_id` that of the standalone login. `issuers` is a JSON array of
    `JwksIssuer`.
    """

    jwt_secret_id: str | None = None
    jwt_issuer: str = "polkadot-app"
    jwt_audience: str | None = None
    login_secret_id: str | None = None
    login_domain: str | None = None
    token_lifetime_seconds: int = Field(default=86_400, gt=0)
    """From a token's `iat` to its `exp`, at most."""
    issuers: Json[tuple[JwksIssuer, ...]] = ()

    @model_validator(mode="after")
    def _every_token_is_for_somebody(self) -> Self:
        if self.jwt_secret_id and not self.jwt_audience:
            raise ValueError("jwt_secret_id needs a jwt_audience: a token for another service would count here too")
        return self

    @model_validator(mode="after")
    def _somebody_is_trusted(self) -> Self:
        if (self.login_secret_id is None) != (self.login_domain is None):
            raise ValueError("login_secret_id and login_domain go together")
        if not (self.jwt_secret_id or self.login_secret_id or self.issuers):
            raise ValueError("no issuer is configured")
        names = list(self._names())
        if len(set(names)) < len(names):
            raise ValueError("an issuer is configured twice")
        return self

    def _names(self) -> Iterator[str]:
        """Of the issuers that are configured."""
        if self.jwt_secret_id:
            yield self.jwt_issuer
        if self.login_domain:
            yield issuer_name(self.login_domain)
        yield from (one.issuer for one in self.issuers)
