"""The environments and all that differs between them. Choose one with `make deploy STAGE=dev`.

What is another in each account can come by context too (`CONTEXT="name=value …"`), and then takes the place of what is
written here: the API's `domain`, `certificate_arn`, `login_domain`, and `per_address` as a number or `none`; `origins`,
`networks`, `channels`, `push_services` and each network's nodes, by the option that it calls them by, each separated by
commas; a network's options, by its own name, as a JSON object; `region`, `webhook_url`, `alarm_email` and `canary`. Any other name is refused.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from clarion.channels import Channel
from clarion.networks import NETWORKS, SIMPLEX, STATEMENTS, WALLETCONNECT, XMTP, ZULIP, network
from clarion.networks.needs import Nodes
from clarion.settings import EMULATED_STAGE
from infra.config import AppConfig, Consumer, EnvironmentConfig, Lasting, Pipeline, Platform
from infra.options import ApiConfig, FollowingConfig, Ingest, NtfTasks, PerAddress, Size, stub_names

if TYPE_CHECKING:
    # Importing it starts a process of Node.js, which reading an environment does not need.
    from constructs import Node

# Attempts lie a quarter of an hour apart at most, so that a provider may be down for some 21 hours.
_DISPATCH = Consumer(size=Size(memory_mb=512, timeout_s=30), concurrency=20, receives=120)
# A call rings for half a minute: after that, another attempt is of no use.
_VOIP = _DISPATCH.model_copy(update={"receives": 8})
# What waits for WalletConnect's relay or a key server is tried a quarter of an hour apart at most, and so for some 28 hours;
# the other networks' commands six minutes apart, for 12. One dapp at its permitted rate has 40 a second, of which a
# function handles six: docs/cost.md, "WalletConnect".
_COMMANDS = _DISPATCH.model_copy(update={"size": Size(memory_mb=512, timeout_s=60), "concurrency": 20})
# A full rule set takes its partition half a minute to erase, so each message gets an invocation to itself. A message
# that comes back finds less left to erase.
_CLEANUP = Consumer(size=Size(memory_mb=512, timeout_s=120), concurrency=4, receives=100, batch=1)
# A file of the lake is some hundred thousand lines, which take seconds to read.
_DELIVERIES = Consumer(size=Size(memory_mb=1_024, timeout_s=120), concurrency=4, receives=10, batch=1)
# Many messages share a record of Firehose's, and few functions leave its quota to what is not late. A message comes back
# after three minutes, so that Firehose may be out of reach for a day.
_LATE_EVENTS = Consumer(size=Size(memory_mb=512, timeout_s=30), concurrency=2, receives=480, batch=1_000, window_s=5)
# One whole processor for 50,000 wake-ups a minute: docs/cost.md, "Wake-ups". Slow queues get five minutes.
_SCHEDULE = Size(memory_mb=1_769, timeout_s=300)
_API = ApiConfig(
    size=Size(memory_mb=1_024, timeout_s=29),
    authorizer=Size(memory_mb=512, timeout_s=10),
    rate=200,
    burst=400,
    open_rate=50,
    open_burst=100,
    jwt_issuer="polkadot-app",
    jwt_audience="clarion",
)

# Ten statements at a time, the most that Lambda hands over without waiting a second for more: a call is ringing. Match
# takes hundreds as well, but they save little beyond ten: see docs/cost.md, "Batches". It waits for AWS most of its time,
# which costs by the memory: docs/cost.md, "Lambda's time".
_MATCH = Consumer(size=Size(memory_mb=1_024, timeout_s=30), concurrency=27, receives=8)
# A page of a fan-out is 250 receivers, so it gets an invocation to itself, and a processor. So many at once queue an
# envelope for a million within two minutes, by less than the writes that a warm table takes: docs/scale.md, "Crowds".
# Ten times match's concurrency and this one together are no more than a subscription's cap, which keeps its bounds and its
# price: docs/decisions/0010-caps.md.
_PAGES = _MATCH.model_copy(update={"size": Size(memory_mb=1_769, timeout_s=30), "concurrency": 24, "batch": 1})

# What fits into half a GB with a million rules: docs/operations.md, "What an ingest task carries". Each reading of the rules'
# stream is billed: docs/cost.md, "What was made lean".
_SMALL = FollowingConfig(
    seen_limit=4_000_000,
    outbox_bytes=24 << 20,
    second_look_bytes=16 << 20,
    standby_bytes=16 << 20,
    stream_poll_seconds=1,
)

PROD = EnvironmentConfig(
    stage="prod",
    apps=(AppConfig(name="first", bundle_id="io.pcf.polkadotapp", alert_title="Polkadot App"),),
    match=_MATCH,
    pages=_PAGES,
    dispatch=_DISPATCH,
    consumers={Channel.VOIP: _VOIP},
    commands=_COMMANDS,
    cleanup=_CLEANUP,
    deliveries=_DELIVERIES,
    late_events=_LATE_EVENTS,
    schedule=_SCHEDULE,
    # A fortieth of the rate of all: who is alone at an address, as a phone at home, comes nowhere near.
    api=_API.model_copy(update={"per_address": PerAddress(requests_per_minute=300), "serve_docs": False}),
    ingest=Ingest(tasks=2, cpu=256, memory_mb=512, following=_SMALL),
    ntf=NtfTasks(tasks=2, most_tasks=6, cpu=256, memory_mb=512),
    pipeline=Pipeline(hour=2, workers=2),
    log_days=30,
    lake_days=400,
    lake_buffer_s=60,
    canary=True,
)


def _few(consumer: Consumer) -> Consumer:
    """As few at a time as SQS lets an event source have."""
    return consumer.model_copy(update={"concurrency": 2})


_FEW = {
    **{name: _few(getattr(PROD, name)) for name in ("match", "pages", "dispatch", "commands", "cleanup", "deliveries")},
    "consumers": {channel: _few(consumer) for channel, consumer in PROD.consumers.items()},
}

DEV = PROD.model_copy(
    update={
        **_FEW,
        "api": _API,
        "stage": "dev",
        "canary": False,
        "data": Lasting.DISCARD,
        "log_days": 7,
        "lake_days": 30,
        # A task that is alone has nobody to take over from within seconds.
        "ingest": Ingest(
            tasks=1, cpu=256, memory_mb=512, spot=True, following=_SMALL.model_copy(update={"lease_seconds": 60})
        ),
        "ntf": NtfTasks(tasks=1, most_tasks=2, cpu=256, memory_mb=512),
        "pipeline": None,
        "monitored": False,
    }
)

# One machine: the Lambdas run on its own processor and few at a time, ingest beside the emulator, without alarms.
EMULATOR = PROD.model_copy(
    update={
        **_FEW,
        "networks": (STATEMENTS, XMTP, ZULIP, WALLETCONNECT, SIMPLEX),
        "channels": tuple(Channel),
        # Nothing is there: its stand-in takes its place.
        "webhook_url": "https://webhook.clarion.localhost/",
        "options": {
            WALLETCONNECT: {
                "domain": "notify.clarion.localhost",
                "relay_url": "https://relay.clarion.localhost",
                "relay_project_id": "0" * 32,
                "key_servers": ["keys.clarion.localhost"],
                "private_key_servers": ["keys.clarion.localhost"],
            },
            SIMPLEX: {
                "hosts": ["ntf.clarion.localhost"],
                "app": "first",
                "test_provider": True,
                "allow_loopback": True,
            },
        },
        "api": _API.model_copy(update={"login_domain": "clarion.localhost"}),
        "stage": EMULATED_STAGE,
        "platform": Platform.HOST,
        "data": Lasting.DISCARD,
        "assets_bucket": "assets",
        "tls_only": False,  # the emulator listens on the loopback alone, in the clear
        "ingest": None,
        "ntf": None,
        "pipeline": None,  # the emulator knows no EMR Serverless: there, the jobs run beside it
        "lake_buffer_s": 0,
        "lake_zipped": False,  # the emulator would name a file .gz and leave it plain
        "monitored": False,
        "canary": False,
    }
)

ENVIRONMENTS = {"prod": PROD, "dev": DEV, "emulator": EMULATOR}

_OF_API = ("domain", "certificate_arn", "login_domain")
_OF_ENVIRONMENT = ("alarm_email", "canary", "region", "webhook_url")
_LISTS = ("networks", "channels", "push_services")
_OF_CDK = ("acknowledged-issue-numbers", "cli-telemetry")
"""What CDK keeps in the context for itself, beside names with a colon."""


def chosen(node: "Node") -> EnvironmentConfig:
    """The environment that the context names; only the emulator's takes stand-ins for the providers from there."""
    name = node.try_get_context("environment")
    if name not in ENVIRONMENTS:
        raise ValueError(f"STAGE is {name!r}, not one of {', '.join(ENVIRONMENTS)}")
    _refuse_unknown(node)
    environment = ENVIRONMENTS[name]
    stubs = _given(node, *stub_names())
    if stubs and environment is not EMULATOR:
        raise ValueError(f"{', '.join(stubs)} would send the pushes of {name!r} elsewhere")
    api = {**dict(environment.api), **_given(node, *_OF_API), **_per_address(node)}
    if origins := _listed(node, "origins"):
        api["origins"] = origins
    changes = {
        "providers": stubs,
        "api": api,
        **_given(node, *_OF_ENVIRONMENT),
    }
    changes |= {name: listed for name in _LISTS if (listed := _listed(node, name))}
    networks = changes.get("networks", environment.networks)
    changes["ingest"] = _ingest(environment, node, networks)
    changes["options"] = {**environment.options, **_options(node, networks)}
    completed = EnvironmentConfig.model_validate({**dict(environment), **changes})
    _require_nodes(completed)
    if completed.monitored and completed.data is Lasting.KEEP and not completed.alarm_email:
        raise ValueError(f'{name!r} has alarms but no `alarm_email`: give it by CONTEXT="alarm_email=…"')
    return completed


def _refuse_unknown(node: "Node") -> None:
    options = (nodes.option for _, nodes in _with_nodes())
    asking = (name for name in NETWORKS if network(name).needs.options)
    fixed = {"environment", "origins", "per_address", *_OF_API, *_OF_ENVIRONMENT, *_LISTS, *stub_names()}
    known = {*fixed, *options, *asking}
    for name in node.get_all_context():
        if ":" not in name and name not in known.union(_OF_CDK):
            (nearest,) = get_close_matches(name, known, n=1, cutoff=0)
            raise ValueError(f"CONTEXT takes no {name!r}; the nearest that it takes is {nearest!r}")


def _with_nodes() -> Iterator[tuple[str, Nodes]]:
    """The networks that have nodes."""
    return ((name, nodes) for name in NETWORKS if (nodes := network(name).needs.nodes))


def _per_address(node: "Node") -> dict[str, Any]:
    match node.try_get_context("per_address"):
        case None:
            return {}
        case "none":
            return {"per_address": None}
        case count:
            return {"per_address": {"requests_per_minute": count}}


def _ingest(environment: EnvironmentConfig, node: "Node", networks: Collection[str]) -> Mapping[str, Any] | None:
    """None, too, if none of the networks has a source."""
    followed = any(network(name).needs.followed for name in networks if name in NETWORKS)
    if environment.ingest is None or not followed:
        return None
    named = {name: urls for name, nodes in _with_nodes() if (urls := _listed(node, nodes.option))}
    return {**dict(environment.ingest), "nodes": {**environment.ingest.nodes, **named}}


def _options(node: "Node", networks: Collection[str]) -> Mapping[str, Mapping[str, Any]]:
    """Of the networks that are deployed: on the command line as JSON, in `cdk.json` as an object."""
    asking = (name for name in networks if name in NETWORKS and network(name).needs.options)
    given = {name: found for name in asking if (found := node.try_get_context(name))}
    return {name: json.loads(found) if isinstance(found, str) else found for name, found in given.items()}


def _require_nodes(environment: EnvironmentConfig) -> None:
    for name in environment.networks:
        nodes = network(name).needs.nodes
        if nodes and environment.ingest and not environment.ingest.nodes.get(name):
            raise ValueError(f'{environment.stage!r} has no node to follow: give it by CONTEXT="{nodes.option}=…"')


def _listed(node: "Node", name: str) -> list[str]:
    """What the context lists: on the command line separated by commas, in `cdk.json` as an array."""
    listed = node.try_get_context(name) or []
    return listed.split(",") if isinstance(listed, str) else list(listed)


def _given(node: "Node", *names: str) -> dict[str, Any]:
    """What of `names` the context gives."""
    return {name: value for name in names if (value := node.try_get_context(name))}
