"""What XMTP needs of the account: its installations, the API of `notifications.v1`, and a worker that runs hourly."""

from clarion.networks.needs import AlarmNeed, Auth, Function, Grant, Index, Needs, Route, Send, Table, Target

INSTALLATIONS, BY_REFRESH, BY_END = "installations", "by_refresh", "by_end"
REFRESHES_SENT = "refreshes_sent"
INSTALLATIONS_ENDED = "installations_ended"
INSTALLATIONS_FAILED = "installations_failed"
"""Met a fault in one run of the worker; the next one meets them again."""

_ROUTER, _WORKER = (Function.ROUTER,), (Function.WORKER,)

NEEDS = Needs(
    tables=(
        Table(
            INSTALLATIONS,
            ("subscription_id", "S"),
            indexes=(
                Index(BY_REFRESH, ("bucket", "N"), ("refresh_in", "N")),
                Index(BY_END, ("bucket", "N"), ("valid_until", "N")),
            ),
        ),
    ),
    routes=(Route("POST", "/notifications.v1.Notifications/{method}", Auth.CLIENT),),
    # As Connect and gRPC-web have them, and two of our own: https://connectrpc.com/docs/cors
    request_headers=(
        *("connect-protocol-version", "connect-timeout-ms", "grpc-timeout", "x-grpc-web", "x-user-agent"),
        *("clarion-app", "clarion-environment"),
    ),
    grants=(
        Grant(INSTALLATIONS, ("UpdateItem", "DeleteItem"), _ROUTER),
        Grant("subscriptions", ("BatchGetItem", "PutItem", "UpdateItem", "DeleteItem"), _ROUTER),
        Grant("subscriptions/index/by_client", ("Query",), _ROUTER),
        Grant("tokens", ("BatchGetItem", "PutItem", "DeleteItem"), _ROUTER),
        Grant("wake_ups", ("PutItem", "DeleteItem"), _ROUTER),
        Grant("rules", ("Query", "BatchGetItem", "BatchWriteItem", "PutItem", "DeleteItem"), _ROUTER),
        Grant("quotas", ("UpdateItem",), _ROUTER),
        Grant(INSTALLATIONS, ("BatchGetItem", "UpdateItem", "DeleteItem"), _WORKER),
        Grant(f"{INSTALLATIONS}/index/{BY_REFRESH}", ("Query",), _WORKER),
        Grant(f"{INSTALLATIONS}/index/{BY_END}", ("Query",), _WORKER),
        Grant("subscriptions", ("BatchGetItem", "UpdateItem"), _WORKER),
        Grant("tokens", ("DeleteItem",), _WORKER),
        Grant("wake_ups", ("DeleteItem",), _WORKER),
    ),
    sends=(Send(Target.CLEANUP), Send(Target.EVENTS), Send(Target.PUSHES)),
    alarms=(
        AlarmNeed(
            INSTALLATIONS_FAILED,
            1,
            "XMTP's worker could not ask an installation for new keys, or could not end one that has run out.",
        ),
    ),
    router="api.networks.xmtp.handler.handle",
    worker="xmtp.worker.handler",
    nodes="xmtp_nodes",
    commanded=False,
    hourly=True,
)
