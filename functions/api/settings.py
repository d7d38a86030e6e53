"""What the two functions read from their environment."""

from pydantic import Field

from clarion.settings import Settings


class ApiSettings(Settings):
    table_prefix: str
    events_stream: str
    subscriptions_per_client: int = Field(default=20, gt=0)
    rules_per_subscription: int = Field(default=10_000, gt=0)
    body_bytes: int = Field(default=4_000_000, gt=0)


class AuthorizerSettings(Settings):
    """`jwt_secret_id` names the secret `{"secret": …}` shared with the issuer `jwt_issuer`."""

    jwt_secret_id: str
    jwt_issuer: str = "polkadot-app"
