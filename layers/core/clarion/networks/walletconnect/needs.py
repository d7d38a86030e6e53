"""What WalletConnect needs of the account: the dapps' API, a worker for what wallets and dapps ask, tables of both.

The routes are those of the Notify server that was shipped, so that dapps only change its address.
https://docs.walletconnect.network/notifications/notify-server (Notify API)
"""

from clarion.networks.needs import (
    AlarmNeed,
    Auth,
    Commander,
    Function,
    Grant,
    Index,
    Needs,
    NetworkOptions,
    Nodes,
    Route,
    Send,
    Table,
    Target,
)
from clarion.networks.walletconnect.settings import WalletConnectOptions

PROJECTS, APPS, TOPICS = "walletconnect_projects", "walletconnect_apps", "walletconnect_topics"
SUBSCRIPTIONS, WATCHERS = "walletconnect_subscriptions", "walletconnect_watchers"
NOTIFICATIONS, IDENTITIES = "walletconnect_notifications", "walletconnect_identities"
SEEN, BUCKETS = "walletconnect_seen", "walletconnect_buckets"
BY_BUCKET = "by_bucket"
DEVICES = "/v1/walletconnect/subscriptions"
SERVER_SECRET = "walletconnect-server"  # noqa: S105 - a name, not a secret

REQUESTS_REFUSED = "requests_refused"
"""Requests of wallets that were not authentic, not timely or not lawful: each by its reason."""
PUBLISHES_FAILED = "publishes_failed"
"""Messages that the relay did not take."""
MAILBOXES_FULL = "mailboxes_full"
"""Messages that the relay did not keep, because nobody had fetched those before."""

_ROUTER, _WORKER = (Function.ROUTER,), (Function.WORKER,)

NEEDS = Needs(
    tables=(
        Table(PROJECTS, ("project_id", "S")),
        Table(APPS, ("app", "S")),
        Table(TOPICS, ("topic", "S"), ttl="ttl", indexes=(Index(BY_BUCKET, ("bucket", "N"), ("added_at", "N")),)),
        Table(SUBSCRIPTIONS, ("app", "S"), ("account", "S"), ttl="ttl"),
        Table(WATCHERS, ("account", "S"), ("watcher", "S"), ttl="ttl"),
        Table(NOTIFICATIONS, ("subscription_id", "S"), ("number", "N"), ttl="ttl"),
        Table(SEEN, ("key", "S"), ttl="ttl"),
        Table(IDENTITIES, ("key", "S"), ttl="ttl"),
        Table(BUCKETS, ("key", "S"), ttl="ttl"),
    ),
    secrets=(SERVER_SECRET,),
    routes=(
        Route("GET", "/.well-known/did.json", Auth.PUBLIC),
        Route("GET", "/v1/notification/{id}", Auth.PUBLIC),
        Route("POST", "/{project}/notify", Auth.SERVER),
        Route("POST", "/v1/{project}/notify", Auth.SERVER),
        Route("GET", "/{project}/subscribers", Auth.SERVER),
        Route("POST", "/v1/{project}/subscribers", Auth.SERVER),
        Route("POST", "/{project}/subscribe-topic", Auth.SERVER),
        Route("GET", "/v0/{project}/welcome-notification", Auth.SERVER),
        Route("POST", "/v0/{project}/welcome-notification", Auth.SERVER),
        Route("GET", "/v1/{project}/mark-all-as-read", Auth.SERVER),
    ),
    api_routes=(
        *(Route(method, DEVICES, Auth.CLIENT) for method in ("POST", "DELETE", "GET")),
        *(Route(method, f"{DEVICES}/rules", Auth.CLIENT) for method in ("PUT", "POST", "DELETE")),
    ),
    server_path="^/(v[01]/)?[0-9a-f]{32}/",
    refusal_members=(("reason", "rate limit exceeded"),),
    grants=(
        Grant(PROJECTS, ("GetItem",)),
        Grant(PROJECTS, ("UpdateItem",), _ROUTER),
        Grant(APPS, ("GetItem", "PutItem", "UpdateItem"), _ROUTER),
        Grant(APPS, ("GetItem", "BatchGetItem"), _WORKER),
        Grant(TOPICS, ("PutItem",), _ROUTER),
        Grant(TOPICS, ("GetItem", "PutItem", "UpdateItem"), _WORKER),
        Grant(SUBSCRIPTIONS, ("Query", "BatchGetItem"), _ROUTER),
        Grant(SUBSCRIPTIONS, ("GetItem", "BatchGetItem", "PutItem"), _WORKER),
        Grant(WATCHERS, ("Query", "PutItem", "DeleteItem"), _WORKER),
        Grant(NOTIFICATIONS, ("GetItem", "Query", "PutItem")),
        Grant(NOTIFICATIONS, ("UpdateItem",), _WORKER),
        Grant(SEEN, ("UpdateItem",)),
        Grant(SEEN, ("GetItem", "PutItem"), _WORKER),
        Grant(IDENTITIES, ("GetItem", "PutItem"), _WORKER),
        Grant(BUCKETS, ("UpdateItem",)),
    ),
    ingest_grants=(Grant(f"{TOPICS}/index/{BY_BUCKET}", ("Query",)), Grant(TOPICS, ("UpdateItem",))),
    sends=(
        Send(Target.COMMANDS, _ROUTER),
        Send(Target.ENVELOPES, _WORKER),
        Send(Target.EVENTS, _WORKER),
    ),
    alarms=(AlarmNeed(PUBLISHES_FAILED, 10, "WalletConnect's relay does not take what wallets are to get."),),
    router="api.networks.walletconnect.handler.handle",
    worker="walletconnect.worker.handler",
    commanded_by=(Commander.SOURCE,),
    nodes=Nodes(
        option="walletconnect_relays",
        address=r"wss://[^/?#@]+/?",
        examples=("wss://relay.one.invalid",),
        keeps_unread=True,
    ),
    options=NetworkOptions(
        WalletConnectOptions,
        example={
            "domain": "notify.clarion.invalid",
            "relay_url": "https://relay.one.invalid",
            "relay_project_id": "0" * 32,
            "key_servers": ["keys.one.invalid"],
        },
        api_domain="domain",
    ),
)
