"""What may differ between environments, typed: `infra/environments.py` holds the values, synthesis checks them."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from clarion.channels import CHANNELS, PROVIDERS, Channel, Provider
from clarion.decisions import OwnMessages
from clarion.limiter import SUBSCRIPTION_CAP
from clarion.networks import NETWORKS, SIMPLEX, STATEMENTS, network
from clarion.providers.webpush_address import ServiceName
from clarion.settings import Title, WebhookUrl
from clarion.sqs import LONGEST_DELAY
from infra.options import ApiConfig, Config, Ingest, Matching, NtfTasks, Size, Stubs
from pipeline.period import SNAPSHOT_DAYS

ZoneId = Annotated[str, Field(pattern=r"^[a-z0-9]+-az\d$")]
LogDays = Literal[7, 30, 90, 365]
"""Some of the retention times that CloudWatch Logs knows."""
SPARE_AGE_S = 60
"""For which a push may wait in its queue beside what it is delayed by, before `queue-old` is about it."""
MOST_APPS = 10
"""As many as fit into the variables of a function, which Lambda takes 4 KB of."""


class Platform(StrEnum):
    """Where the functions run: AWS's Graviton processors, or the machine at hand, as in the emulator."""

    ARM64 = "arm64"
    HOST = "host"


class Lasting(StrEnum):
    """What becomes of the data when the data stack is deleted."""

    KEEP = "keep"
    DISCARD = "discard"


class Consumer(Config):
    """A function that is fed from a queue.

    `concurrency` bounds how many run at once (SQS asks for at least two). A message is handed out `receives` times
    before it goes to the dead-letter queue. A batch over ten messages needs a `window_s` of at least one second,
    which is then also the least delay of a lone message.
    """

    size: Size
    concurrency: Annotated[int, Field(ge=2, le=1_000)]
    receives: Annotated[int, Field(ge=1, le=1_000)]
    batch: Annotated[int, Field(ge=1, le=10_000)] = 10
    window_s: Annotated[int, Field(ge=0, le=300)] = 0

    @model_validator(mode="after")
    def _large_batches_need_a_window(self) -> "Consumer":
        if self.batch > 10 and self.window_s == 0:
            raise ValueError("a batch over ten messages needs a window")
        return self

    @property
    def of_held(self) -> "Consumer":
        """The same function, fed from the queue of what can wait: fewer at once and many at a time, for none is urgent."""
        return self.model_copy(update={"concurrency": max(2, self.concurrency // 2), "batch": 100, "window_s": 5})

    @property
    def visibility_s(self) -> int:
        """Six times the timeout and the window; https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
        return 6 * self.size.timeout_s + self.window_s


class AppConfig(Config):
    """An app, reached by way of `providers`, with a secret at each of them; APNs knows it by its `bundle_id`.

    A subscription names it by `name`. With `apns_sandbox` a secret of its own holds the key for Apple's sandbox:
    newer keys are good in one environment only. `own_messages` says whether clients of a network that recognises them
    are pushed what they have sent themselves.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    alert_title: Title
    bundle_id: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9.-]+$")] = None
    providers: frozenset[Provider] = Field(default_factory=lambda: frozenset(PROVIDERS))
    apns_sandbox: bool = False
    own_messages: OwnMessages = OwnMessages.SUPPRESS

    @model_validator(mode="after")
    def _apns_knows_it(self) -> "AppConfig":
        if (Provider.APNS in self.providers) != bool(self.bundle_id):
            raise ValueError("bundle_id and the provider apns go together")
        if self.apns_sandbox and not self.bundle_id:
            raise ValueError("apns_sandbox needs a bundle_id")
        return self


class Pipeline(Config):
    """The Spark jobs on EMR Serverless; the daily run begins at `hour`, UTC, once the day's last lines have arrived.

    `release` brings Spark and Python as the jobs are tested with. The daily run has at most so many `workers` at once,
    the driver among them, and repairs have as many beside it; a new account may use 16 processors, which are four in
    all. With `watch_minutes`, losses are looked for so often, by two workers more; beyond eight, the alarm on them may
    come later than a quarter of an hour after a loss.
    """

    release: Annotated[str, Field(pattern=r"^emr-spark-8\.\d+\.\d+$")] = "emr-spark-8.1.0"
    hour: Annotated[int, Field(ge=2, le=20)]
    workers: Annotated[int, Field(ge=2, le=250)]
    timeout_minutes: Annotated[int, Field(ge=15, le=720)] = 240
    watch_minutes: Annotated[int | None, Field(ge=5, le=60)] = None


class Thresholds(Config):
    """Where alarms go off. Counts are over five minutes if not said otherwise.

    `call_age_s` holds for each queue that calls go through. What is held is sent anew after each delay, of a quarter of an
    hour at most, and `held_age_s` counts from then. `in_flight` counts the messages of one queue, of which SQS
    allows 120,000: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
    `above_ledger` is how many times as much as docs/cost.md says a push may cost.
    """

    ingest_lag_ms: Annotated[int, Field(ge=1)] = 30_000
    rules_behind_ms: Annotated[int, Field(ge=1)] = 60_000
    envelope_age_s: Annotated[int, Field(ge=1)] = 60
    push_age_s: Annotated[int, Field(ge=1)] = 300
    call_age_s: Annotated[int, Field(ge=1)] = 30
    held_age_s: Annotated[int, Field(ge=1)] = 1_800
    command_age_s: Annotated[int, Field(ge=1)] = 300
    cleanup_age_s: Annotated[int, Field(ge=1)] = 3_600
    deliveries_age_s: Annotated[int, Field(ge=1)] = 3_600
    delivery_p99_ms: Annotated[int, Field(ge=1)] = 10_000
    bad_signatures: Annotated[int, Field(ge=1)] = 100
    node_faults: Annotated[int, Field(ge=1)] = 4
    failed_envelopes: Annotated[int, Field(ge=1)] = 10
    delayed_pushes: Annotated[int, Field(ge=1)] = 10
    in_flight: Annotated[int, Field(ge=1, le=120_000)] = 60_000
    stale_pushes: Annotated[int, Field(ge=1)] = 5
    refused_pushes: Annotated[int, Field(ge=1)] = 10
    dead_tokens_an_hour: Annotated[int, Field(ge=1)] = 100
    function_errors: Annotated[int, Field(ge=1)] = 3
    api_errors: Annotated[int, Field(ge=1)] = 5
    api_p99_ms: Annotated[int, Field(ge=1)] = 3_000
    lake_delay_s: Annotated[int, Field(ge=60)] = 900
    above_ledger: Annotated[float, Field(gt=1)] = 1.5
    pipeline_silence_h: Annotated[int, Field(ge=25, le=168)] = 30


class EnvironmentConfig(Config):
    """One deployment. `ingest` absent means that the statements' source runs elsewhere, `pipeline` that no job runs.

    `ntf` is SimpleX's server, which is deployed with SimpleX alone, and not without ingest.
    `networks` are those that are deployed, by their names in `clarion.networks.NETWORKS`, and `channels` those that
    subscriptions may have. `match` works off envelopes, and `pages` the pages of those that a great many want. `dispatch`
    works off the pushes of each channel that has no consumer of its own in `consumers`, and `commands` those of each
    network that has any. `push_services` are further hosts that browsers' endpoints may have, beside those of the
    well-known browsers: with a port, one is the deployment's own. `webhook_url` is where the channel `webhook` leads.
    `options` say, by network, what the networks ask of a deployment (`clarion.networks.needs.NetworkOptions`).
    `apps`: the first, which has the providers of all channels, is meant by subscriptions that name none.
    `zones`, by their ids, are those of ingest's network and of the pipeline's repairs: by default `infra.regions` has them.
    CDK uploads code by way of the roles that `cdk bootstrap` made, or, to `assets_bucket`, as whoever calls it.
    Everything in the lake expires after `lake_days`. Before half of them have passed, the pipeline's daily run writes
    again what is still in force: with fewer than seven, a run that fails would come too close to that. `tracing` and
    `invocation_logs` have Lambda record each invocation, also one that went well, and cost by the invocation. With `canary`
    and `monitored`, a deployment tries new versions of match and dispatch on a tenth of what comes, watched by alarms.
    """

    stage: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{1,11}$")]
    account: Annotated[str | None, Field(pattern=r"^\d{12}$")] = None
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")] = "us-east-1"
    zones: tuple[ZoneId, ZoneId] | None = None
    platform: Platform = Platform.ARM64
    data: Lasting = Lasting.KEEP
    assets_bucket: str | None = None
    tls_only: bool = True

    networks: tuple[str, ...] = (STATEMENTS,)
    channels: Annotated[tuple[Channel, ...], Field(min_length=1)] = (Channel.APNS, Channel.VOIP, Channel.FCM)
    apps: Annotated[tuple[AppConfig, ...], Field(min_length=1, max_length=MOST_APPS)]

    match: Consumer
    pages: Consumer
    matching: Matching = Matching()
    dispatch: Consumer
    consumers: Mapping[Channel, Consumer] = {}
    commands: Consumer
    cleanup: Consumer
    deliveries: Consumer
    late_events: Consumer
    schedule: Size
    api: ApiConfig
    ingest: Ingest | None
    ntf: NtfTasks | None = None
    pipeline: Pipeline | None = None
    push_services: tuple[ServiceName, ...] = ()
    webhook_url: WebhookUrl | None = None
    options: Mapping[str, Mapping[str, Any]] = {}
    providers: Stubs = Stubs()

    log_days: LogDays
    lake_days: Annotated[int, Field(ge=7)]
    lake_buffer_s: Annotated[int, Field(ge=0, le=900)]
    lake_zipped: bool = True
    tracing: bool = False
    invocation_logs: bool = False
    monitored: bool = True
    canary: bool = False
    alarm_email: Annotated[str | None, Field(pattern=r"^[^@\s]+@[^@\s]+$")] = None
    thresholds: Thresholds = Thresholds()

    @model_validator(mode="after")
    def _functions_alone_run_on_the_host(self) -> "EnvironmentConfig":
        if self.platform is Platform.HOST and (self.ingest or self.pipeline):
            raise ValueError("ingest and pipeline are deployed for arm64 only")
        return self

    @model_validator(mode="after")
    def _the_lake_outlives_the_snapshots(self) -> "EnvironmentConfig":
        """A manifest may be younger than its files, and must not name what has expired."""
        if self.pipeline and self.lake_days <= SNAPSHOT_DAYS:
            raise ValueError(f"with the pipeline, lake_days has to be more than the {SNAPSHOT_DAYS} of its snapshots")
        return self

    @model_validator(mode="after")
    def _the_watch_reaches_cloudwatch(self) -> "EnvironmentConfig":
        if self.pipeline and self.pipeline.watch_minutes and not self.ingest:
            raise ValueError("watch_minutes needs ingest, by whose network CloudWatch is reached")
        return self

    @model_validator(mode="after")
    def _the_certificate_is_of_the_region(self) -> "EnvironmentConfig":
        if self.api.certificate_arn and self.api.certificate_arn.split(":")[3] != self.region:
            raise ValueError(f"the API's certificate has to be one of {self.region}")
        return self

    @model_validator(mode="after")
    def _cloudfront_is_configured_in_one_region(self) -> "EnvironmentConfig":
        if self.api.per_address and self.region != "us-east-1":
            raise ValueError("per_address needs a stack in us-east-1, where CloudFront looks for its firewall's rules")
        return self

    @model_validator(mode="after")
    def _apps_can_be_distinguished(self) -> "EnvironmentConfig":
        if not self.apps[0].providers.issuperset(self.deployed_providers):
            raise ValueError("the first app needs the provider of each channel")
        if len({app.name for app in self.apps}) < len(self.apps):
            raise ValueError("two apps have the same name")
        return self

    @model_validator(mode="after")
    def _networks_are_registered(self) -> "EnvironmentConfig":
        if unknown := set(self.networks) - NETWORKS.keys():
            raise ValueError(f"no network is called {', '.join(sorted(unknown))}")
        if strange := (self.matching.limits or {}).keys() - set(self.networks):
            raise ValueError(f"limits of {', '.join(sorted(strange))}, which is not deployed")
        if self.ingest and not self.followed_networks:
            raise ValueError("ingest has no network to follow")
        return self

    @model_validator(mode="after")
    def _late_pushes_are_no_old_ones(self) -> "EnvironmentConfig":
        """What a limit holds back waits in the queue of pushes, where SQS counts a message's age from when it was sent."""
        allowed = self.thresholds.push_age_s - SPARE_AGE_S
        for name in self.networks:
            if network(name).newest and (seconds := self._late_seconds(name)) > allowed:
                needed = f"thresholds.push_age_s has to be {seconds + SPARE_AGE_S} at least"
                raise ValueError(f"{needed}, or the limit shorter, as {name} has pushes wait for {seconds} s")
        return self

    def _late_seconds(self, name: str) -> int:
        """How long a push may wait until a limit of `matching` ends."""
        chosen = (self.matching.limits or {}).get(name)
        limit = chosen.limit if chosen else network(name).limit
        cap = self.matching.subscription_cap_seconds or SUBSCRIPTION_CAP.window // 1000
        return min(LONGEST_DELAY, max(limit.cooldown // 1000 if limit else 0, cap))

    @model_validator(mode="after")
    def _networks_have_their_options(self) -> "EnvironmentConfig":
        asked = {name: options for name in self.networks if (options := network(name).needs.options)}
        if self.options.keys() != asked.keys():
            named = ", ".join(sorted(self.options.keys() ^ asked.keys()))
            raise ValueError(f"options have to be given for the networks that ask for some, and no others: {named}")
        for name, options in asked.items():
            options.model.model_validate(self.options[name])
            if self.platform is not Platform.HOST and (local := self.options[name].keys() & {*options.local}):
                raise ValueError(f"{name} may have {', '.join(sorted(local))} on one machine alone")
        return self

    @model_validator(mode="after")
    def _networks_name_the_api_s_domain(self) -> "EnvironmentConfig":
        """An API without one may have something before it that has the networks'."""
        for name in self.networks if self.api.domain else ():
            asked = network(name).needs.options
            if asked and asked.api_domain and self.options[name][asked.api_domain] != self.api.domain:
                raise ValueError(
                    f"the `{asked.api_domain}` of {name} has to be the API's own `domain`: its routes are reached there"
                )
        return self

    @model_validator(mode="after")
    def _networks_name_an_app_of_apple_s(self) -> "EnvironmentConfig":
        reached = {app.name for app in self.apps if Provider.APNS in app.providers}
        for name in self.networks:
            asked = network(name).needs.options
            if asked and asked.app and self.options[name][asked.app] not in reached:
                raise ValueError(f"the `{asked.app}` of {name} has to be one of {', '.join(sorted(reached))}")
        return self

    @model_validator(mode="after")
    def _channels_are_whole(self) -> "EnvironmentConfig":
        if len(set(self.channels)) < len(self.channels):
            raise ValueError("a channel is named twice")
        if (Channel.WEBHOOK in self.channels) != bool(self.webhook_url):
            raise ValueError("webhook_url and the channel webhook go together")
        return self

    @model_validator(mode="after")
    def _direct_pushes_have_their_providers(self) -> "EnvironmentConfig":
        if self.api.direct_push and (missing := self._missing_for_direct_pushes):
            raise ValueError(f"direct_push needs a channel of {', '.join(sorted(missing))}, too")
        return self

    @property
    def _missing_for_direct_pushes(self) -> set[Provider]:
        needed = {provider for provider, spec in PROVIDERS.items() if spec.takes_direct_pushes}
        return needed.difference(self.deployed_providers)

    @property
    def ntf_server(self) -> NtfTasks | None:
        """None, too, where nobody would call it."""
        return self.ntf if SIMPLEX in self.networks and self.ingest else None

    @property
    def followed_networks(self) -> tuple[str, ...]:
        """Those that ingest has sources of."""
        return tuple(name for name in self.networks if network(name).needs.followed)

    def networks_of(self, channel: Channel) -> tuple[str, ...]:
        """Those that are reached by it."""
        return tuple(name for name in self.networks if channel in network(name).channels)

    def newest_tables(self, channel: Channel | None = None) -> tuple[str, ...]:
        """The tables of those whose pushes report the newest items; with `channel`, of those that are reached by it."""
        reached = self.networks if channel is None else self.networks_of(channel)
        return tuple(one.needs.body_table for name in reached if (one := network(name)).newest and one.needs.body_table)

    @property
    def has_additive_networks(self) -> bool:
        """Whether a device token may have more holders than end at once."""
        return any(network(name).additive for name in self.networks)

    @property
    def direct_push(self) -> bool:
        """As `api.direct_push` says; if it says nothing, wherever the channels have the providers that are needed."""
        chosen = self.api.direct_push
        return not self._missing_for_direct_pushes if chosen is None else chosen

    @property
    def deployed_providers(self) -> tuple[Provider, ...]:
        """Those that the channels go through."""
        used = {CHANNELS[channel].provider for channel in self.channels}
        return tuple(provider for provider in PROVIDERS if provider in used)

    @property
    def prefix(self) -> str:
        """What every name of this deployment starts with, so that several fit into one account."""
        return f"clarion-{self.stage}-"

    def options_of(self, name: str) -> str | None:
        """A network's options, whole, as JSON; None if it has none."""
        options = network(name).needs.options
        return options.model.model_validate(self.options[name]).model_dump_json() if options else None

    @property
    def push_service_settings(self) -> dict[str, str]:
        """For those that read browsers' endpoints."""
        return {"push_services": json.dumps(self.push_services)} if self.push_services else {}

    def address_settings(self, channel: Channel) -> dict[str, str]:
        """What dispatch reads of where the channel's addresses may be."""
        match channel:
            case Channel.WEBPUSH:
                return self.push_service_settings
            case Channel.WEBHOOK if self.webhook_url:
                return {"webhook_url": self.webhook_url}
        return {}

    def consumer(self, channel: Channel) -> Consumer:
        """Of the channel's pushes."""
        return self.consumers.get(channel, self.dispatch)
