"""What XMTP needs of the account: its installations, the API of `notifications.v1`, and a worker that runs hourly."""

from clarion.networks.needs import AlarmNeed, Auth, Function, Grant, Index, Needs, Nodes, Route, Send, Table, Target
from clarion.settings import NodeBudget

INSTALLATIONS, BY_KEYS_DUE, BY_END_DUE = "installations", "by_keys_due", "by_end_due"
REFRESHES_SENT = "refreshes_sent"
INSTALLATIONS_ENDED = "installations_ended"
INSTALLATIONS_FAILED = "installations_failed"
"""Met a fault in one run of the worker; the next one meets them again."""

_MIB = 1024 * 1024
_ROUTER, _WORKER = (Function.ROUTER,), (Function.WORKER,)

NEEDS = Needs(
    tables=(
        Table(
            INSTALLATIONS,
            ("subscription_id", "S"),
            indexes=(
                Index(BY_KEYS_DUE, ("bucket", "N"), ("keys_due", "N")),
                Index(BY_END_DUE, ("bucket", "N"), ("end_due", "N")),
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
        Grant(INSTALLATIONS, ("UpdateItem", "DeleteItem")),
        Grant(INSTALLATIONS, ("BatchGetItem",), _WORKER),
        Grant("subscriptions", ("BatchGetItem", "PutItem", "UpdateItem", "DeleteItem"), _ROUTER),
        Grant("subscriptions/index/by_client", ("Query",), _ROUTER),
        Grant("tokens", ("BatchGetItem", "PutItem", "DeleteItem"), _ROUTER),
        Grant("wake_ups", ("PutItem", "DeleteItem"), _ROUTER),
        Grant("rules", ("Query", "BatchGetItem", "BatchWriteItem", "PutItem", "DeleteItem"), _ROUTER),
        Grant("quotas", ("UpdateItem",), _ROUTER),
        Grant(f"{INSTALLATIONS}/index/{BY_KEYS_DUE}", ("Query",), _WORKER),
        Grant(f"{INSTALLATIONS}/index/{BY_END_DUE}", ("Query",), _WORKER),
        Grant("subscriptions", ("BatchGetItem", "UpdateItem"), _WORKER),
        Grant("tokens", ("DeleteItem",), _WORKER),
        Grant("rules", ("Query", "PutItem", "BatchWriteItem"), _WORKER),
        Grant("wake_ups", ("DeleteItem",), _WORKER),
    ),
    sends=(Send(Target.CLEANUP), Send(Target.EVENTS), Send(Target.PUSHES)),
    alarms=(
        AlarmNeed(
            INSTALLATIONS_FAILED,
            1,
            "XMTP's worker could not do what was due for an installation: ask for new keys, erase old ones, or end it.",
        ),
    ),
    router="api.networks.xmtp.handler.handle",
    worker="xmtp.worker.handler",
    # A host, with a port if need be. A message has 1,048,214 bytes at most (https://docs.xmtp.org/chat-apps/intro/faq);
    # match hashes it for each of its subscribers.
    nodes=Nodes(
        option="xmtp_nodes",
        address=r"https://[^/?#@]+/?",
        examples=("https://one.node.invalid", "https://two.node.invalid"),
        budget=NodeBudget(message_bytes=2 * _MIB, bytes_per_second=4 * _MIB),
    ),
    commanded_by=(),
    hourly=True,
    ends_idle=True,
)
