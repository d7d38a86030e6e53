"""The API's function and its authorizer: what they read, and what they may do."""

import json

from aws_cdk import Stack

from clarion.channels import PROVIDERS, Provider
from infra.findings import accept, objects_of
from infra.functions import ComponentFunction, Foundation, app_names, given
from infra.lake import DELIVERIES
from infra.options import ApiConfig, Stubs
from infra.permissions import allow, allow_index, allow_key
from infra.secrets import ProviderSecrets
from infra.tables import BY_CLIENT


class ApiFunction(ComponentFunction):
    def __init__(self, scope: Stack, *, foundation: Foundation) -> None:
        api, secrets = foundation.environment.api, foundation.data.secrets
        direct_push = _direct_push(foundation) if foundation.environment.direct_push else None
        settings = {
            **foundation.settings,
            **api.allowance.as_settings(),
            **_login(foundation),
            **foundation.environment.push_service_settings,
            "cleanup_queue_url": foundation.queues.cleanup.queue.queue_url,
            "lake_bucket": foundation.data.lake.bucket_name,
            "push_queues": scope.to_json_string(_queue_urls(foundation)),
            "networks": json.dumps(foundation.environment.networks),
            "apps": json.dumps(app_names(foundation)),
            **given(token_proof=api.token_proof),
            **given(direct_push=scope.to_json_string(direct_push) if direct_push else None),
            **given(origin_secret_id=secrets.required_origin, serve_docs=None if api.serve_docs else "false"),
        }
        super().__init__(
            scope,
            "Api",
            foundation=foundation,
            handler="api.handler.handler",
            size=api.size,
            settings=settings,
            reserved=api.reserved,
        )
        self._allow_tables()
        self._allow_deliveries()
        self.allow_sending(foundation.queues.cleanup.queue, *foundation.queues.proving.values())
        foundation.allow_events(self)
        direct = [name for each in _direct_secrets(foundation).values() for name in each.names] if direct_push else []
        self.allow_secrets(*direct, secrets.login, secrets.required_origin)

    def _allow_tables(self) -> None:
        tables = self.foundation.data.tables
        self.allow_tables("BatchGetItem PutItem UpdateItem DeleteItem", tables.subscriptions)
        allow_index(self, tables.subscriptions, BY_CLIENT)
        self.allow_tables("BatchGetItem PutItem DeleteItem", tables.tokens)
        self.allow_tables("Query BatchGetItem BatchWriteItem PutItem DeleteItem", tables.rules)
        self.allow_tables("UpdateItem", tables.quotas)
        self.allow_tables("PutItem DeleteItem", tables.wake_ups)
        allow_key(self, self.foundation.data.key, "dynamodb")

    def _allow_deliveries(self) -> None:
        """What the lake holds beside its index stays out of reach, its names too."""
        lake = self.foundation.data.lake
        only_there = {"StringLike": {"s3:prefix": f"{DELIVERIES}*"}}
        allow(self, "s3: ListBucket", lake.bucket_arn, conditions=only_there)
        allow(self, "s3: GetObject", lake.arn_for_objects(f"{DELIVERIES}*"))
        accept(self.own_role, objects_of(lake, DELIVERIES), "The index is one object for each file of the lake")
        allow_key(self, self.foundation.data.key, "s3", "Decrypt")


class AuthorizerFunction(ComponentFunction):
    """Knows whose tokens count, and no table."""

    def __init__(self, scope: Stack, *, foundation: Foundation) -> None:
        api, secrets = foundation.environment.api, foundation.data.secrets
        lifetime = api.token_lifetime_seconds
        settings = {
            **_shared_issuer(foundation),
            **_login(foundation),
            **_issuers(foundation),
            **given(token_lifetime_seconds=str(lifetime) if lifetime else None),
        }
        super().__init__(
            scope,
            "Authorizer",
            foundation=foundation,
            handler="api.authorizer.handler",
            size=api.authorizer,
            settings=settings,
            reserved=api.reserved,
        )
        self.allow_secrets(secrets.jwt, secrets.login)


def _queue_urls(foundation: Foundation) -> dict[str, str]:
    """By channel, where codes are sent."""
    return {channel: queue.queue_url for channel, queue in foundation.queues.proving.items()}


def _direct_push(foundation: Foundation) -> dict[str, str]:
    """See `DirectPushSettings`: the first app at every provider."""
    environment = foundation.environment
    first = environment.apps[0]
    settings = {
        **_stand_ins(environment.providers),
        **_direct_push_bounds(environment.api),
        **given(bundle_id=first.bundle_id),
        "alert_title": first.alert_title,
    }
    for provider, secrets in _direct_secrets(foundation).items():
        settings |= given(**{f"{provider}_secret_id": secrets.key, f"{provider}_sandbox_secret_id": secrets.sandbox})
    return settings


def _direct_secrets(foundation: Foundation) -> dict[Provider, ProviderSecrets]:
    """The first app's at each provider that direct pushes go to."""
    first, secrets = foundation.environment.apps[0], foundation.data.secrets
    return {
        provider: apps[first] for provider, apps in secrets.providers.items() if PROVIDERS[provider].takes_direct_pushes
    }


def _stand_ins(stubs: Stubs) -> dict[str, str]:
    """For the providers that direct pushes go to."""
    others = {name for spec in PROVIDERS.values() if not spec.takes_direct_pushes for name in spec.addresses}
    return {name: value for name, value in stubs.as_settings().items() if name not in others}


def _direct_push_bounds(api: ApiConfig) -> dict[str, str]:
    bounds = given(pushes_per_minute=api.pushes_per_minute, pushes_per_token_per_minute=api.pushes_per_token_per_minute)
    return {name: str(bound) for name, bound in bounds.items()}


def _login(foundation: Foundation) -> dict[str, str]:
    domain, secret = foundation.environment.api.login_domain, foundation.data.secrets.login
    return {"login_domain": domain, "login_secret_id": secret} if domain and secret else {}


def _shared_issuer(foundation: Foundation) -> dict[str, str]:
    api, secret = foundation.environment.api, foundation.data.secrets.jwt
    if not (api.jwt_issuer and api.jwt_audience and secret):
        return {}
    return {"jwt_secret_id": secret, "jwt_issuer": api.jwt_issuer, "jwt_audience": api.jwt_audience}


def _issuers(foundation: Foundation) -> dict[str, str]:
    issuers = [
        {**issuer.model_dump(mode="json"), "algorithms": sorted(issuer.algorithms)}
        for issuer in foundation.environment.api.issuers
    ]
    return {"issuers": json.dumps(issuers)} if issuers else {}
