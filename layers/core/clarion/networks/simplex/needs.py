"""What SimpleX needs of the account: tables of tokens and queues, the NTF server, and a worker for what follows."""

from clarion.networks.needs import (
    AlarmNeed,
    Commander,
    Function,
    Grant,
    Index,
    Needs,
    NetworkOptions,
    Send,
    Table,
    Target,
)
from clarion.networks.simplex.bounds import VERIFIED_SECONDS
from clarion.networks.simplex.settings import LOCAL_OPTIONS, SimplexOptions

TOKENS, QUEUES, ITEMS = "simplex_tokens", "simplex_queues", "simplex_items"
BY_BUCKET, BY_TOKEN = "by_bucket", "by_token"
OF_SOURCE = ("queue", "notifier_key", "token_id", "status")
"""What the index of queues has beside its keys."""
OF_WORKER = ("bucket", "ttl")
"""What the index of a token's queues has."""
STORAGE_KEY = "simplex-storage-key"
IDENTITY = "simplex-identity"

_SERVER, _WORKER = (Function.SERVER,), (Function.WORKER,)
_SERVER_AND_WORKER = (Function.SERVER, Function.WORKER)

NEEDS = Needs(
    tables=(
        Table(TOKENS, ("token_id", "S"), ttl="ttl"),
        Table(
            QUEUES,
            ("queue_key", "B"),
            ttl="ttl",
            indexes=(
                Index(BY_BUCKET, ("bucket", "N"), ("changed_at", "N"), more=OF_SOURCE),
                Index(BY_TOKEN, ("token_id", "S"), ("queue_key", "B"), more=OF_WORKER),
            ),
        ),
        Table(ITEMS, ("subscription_id", "S"), ttl="ttl"),
    ),
    secrets=(STORAGE_KEY, IDENTITY),
    made_secrets=(STORAGE_KEY,),
    payload_secret=STORAGE_KEY,
    ingest_secrets=(STORAGE_KEY,),
    server_secrets=(STORAGE_KEY, IDENTITY),
    grants=(
        Grant(TOKENS, ("GetItem", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"), _SERVER),
        Grant(TOKENS, ("GetItem", "UpdateItem", "ConditionCheckItem"), _WORKER),
        Grant(QUEUES, ("BatchGetItem", "PutItem", "UpdateItem"), _SERVER),
        Grant(QUEUES, ("UpdateItem",), _WORKER),
        Grant(f"{QUEUES}/index/{BY_TOKEN}", ("Query",), _SERVER_AND_WORKER),
        Grant(ITEMS, ("GetItem",), _SERVER),
        Grant(ITEMS, ("DeleteItem",), _WORKER),
        Grant("subscriptions", ("BatchGetItem", "PutItem", "UpdateItem", "DeleteItem"), _SERVER),
        Grant("subscriptions", ("BatchGetItem", "UpdateItem"), _WORKER),
        Grant("tokens", ("Query", "PutItem", "DeleteItem"), _SERVER),
        Grant("rules", ("PutItem", "DeleteItem"), _SERVER),
        Grant("rules", ("Query", "BatchGetItem", "BatchWriteItem", "PutItem"), _WORKER),
        Grant("wake_ups", ("PutItem", "DeleteItem"), _SERVER),
        Grant("quotas", ("UpdateItem",), _SERVER),
    ),
    ingest_grants=(Grant(f"{QUEUES}/index/{BY_BUCKET}", ("Query",)), Grant(QUEUES, ("UpdateItem",))),
    sends=(
        Send(Target.PUSHES, _SERVER),
        Send(Target.COMMANDS, _SERVER),
        Send(Target.EVENTS, _SERVER_AND_WORKER),
    ),
    alarms=(
        AlarmNeed("ntf_commands_failed", 10, "The NTF server did not execute what SimpleX's agents asked for", "ntf"),
        AlarmNeed("ntf_connections_refused", 100, "The NTF server has sent SimpleX's agents away", "ntf"),
        AlarmNeed(
            "ntf_handshakes_failed", 200, "SimpleX's agents and the NTF server do not get as far as a session", "ntf"
        ),
        # A task reports thirty times in five minutes.
        AlarmNeed("smp_none_reached", 25, "A task of ingest reaches none of several SMP servers", "ingest"),
        AlarmNeed("smp_queues_beyond", 1, "A task of ingest has no room for all queues of SimpleX", "ingest"),
    ),
    worker="simplex.worker.handler",
    command_delay_seconds=VERIFIED_SECONDS,
    commanded_by=(Commander.OUTCOME,),
    finds_sources=True,
    options=NetworkOptions(
        SimplexOptions,
        example={"hosts": ["ntf.clarion.invalid"], "app": "first"},
        app="app",
        local=LOCAL_OPTIONS,
    ),
    body_table=ITEMS,
    ends_idle=True,
)
