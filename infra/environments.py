"""The environments and all that differs between them. Choose one with `cdk … --context environment=dev`."""

from constructs import Node

from infra.config import Api, App, Consumer, Environment, Ingest, Lasting, Pipeline, Platform, Size, Stubs

# Attempts lie a quarter of an hour apart at most, so that a provider may be down for about a day.
_DISPATCH = Consumer(size=Size(memory_mb=512, timeout_s=30), concurrency=20, receives=120)
# A call rings for half a minute: after that, another attempt is of no use.
_VOIP = _DISPATCH.model_copy(update={"receives": 8})
_API = Api(
    size=Size(memory_mb=1_024, timeout_s=29),
    authorizer=Size(memory_mb=512, timeout_s=5),
    rate=200,
    burst=400,
    open_rate=50,
    open_burst=100,
    jwt_issuer="polkadot-app",
)

PROD = Environment(
    stage="prod",
    apps=(App(name="first", bundle_id="io.pcf.polkadotapp", alert_title="Polkadot App"),),
    match=Consumer(size=Size(memory_mb=1_769, timeout_s=30), concurrency=50, receives=8),
    apns=_DISPATCH,
    voip=_VOIP,
    fcm=_DISPATCH,
    api=_API,
    ingest=Ingest(node_urls=("wss://statement-store.example.org",), tasks=2, cpu=512, memory_mb=1_024),
    pipeline=Pipeline(hour=2, workers=4),
    log_days=30,
    lake_days=400,
    lake_buffer_s=60,
    tracing=True,
)

DEV = PROD.model_copy(
    update={
        "stage": "dev",
        "data": Lasting.DISCARD,
        "log_days": 7,
        "lake_days": 30,
        "ingest": Ingest(node_urls=("wss://statement-store.example.org",), tasks=1, cpu=256, memory_mb=512),
        "pipeline": Pipeline(hour=2, workers=2),
    }
)

# One machine: the Lambdas run on its own processor and few at a time, ingest beside the emulator, and nobody watches.
_FEW = {"concurrency": 2}
EMULATOR = PROD.model_copy(
    update={
        "match": PROD.match.model_copy(update=_FEW),
        "apns": PROD.apns.model_copy(update=_FEW),
        "voip": PROD.voip.model_copy(update=_FEW),
        "fcm": PROD.fcm.model_copy(update=_FEW),
        "api": PROD.api.model_copy(update={"login_domain": "clarion.localhost"}),
        "stage": "local",
        "platform": Platform.HOST,
        "data": Lasting.DISCARD,
        "assets_bucket": "assets",
        "tls_only": False,  # the emulator listens on the loopback alone, in the clear
        "ingest": None,
        "pipeline": None,  # the emulator knows no EMR Serverless: there, the jobs run beside it
        "lake_buffer_s": 0,
        "lake_zipped": False,  # the emulator would name a file .gz and leave it plain
        "tracing": False,
        "monitored": False,
    }
)

ENVIRONMENTS = {"prod": PROD, "dev": DEV, "emulator": EMULATOR}
_STUBS = tuple(Stubs.model_fields)


def chosen(node: Node) -> Environment:
    """The environment that the context names; only the emulator's takes stand-ins for the providers from there."""
    name = node.try_get_context("environment")
    if name not in ENVIRONMENTS:
        raise ValueError(f"context 'environment' is {name!r}, not one of {', '.join(ENVIRONMENTS)}")
    environment = ENVIRONMENTS[name]
    stubs = {field: value for field in _STUBS if (value := node.try_get_context(field))}
    if stubs and environment is not EMULATOR:
        raise ValueError(f"{', '.join(stubs)} would send the pushes of {name!r} elsewhere")
    return Environment.model_validate({**dict(environment), "providers": stubs})
