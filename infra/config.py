"""What may differ between environments, typed: `infra/environments.py` holds the values, synthesis checks them."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import (
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    UrlConstraints,
    model_validator,
)

from clarion.issuers import JwksIssuer
from clarion.settings import Title

LogDays = Literal[7, 30, 90, 365]
"""Some of the retention times that CloudWatch Logs knows."""


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", revalidate_instances="always")

    def as_settings(self) -> dict[str, str]:
        """What is set, as text for a function's environment; for the rest the function's own defaults hold."""
        return {name: str(value) for name, value in self.model_dump(mode="json", exclude_none=True).items()}


class Platform(StrEnum):
    """Where the functions run: AWS's Graviton processors, or the machine at hand, as in the emulator."""

    ARM64 = "arm64"
    HOST = "host"


class Size(Part):
    """A Lambda function's share of the machine. Lambda gives one whole processor at 1,769 MB."""

    memory_mb: Annotated[int, Field(ge=128, le=10_240)]
    timeout_s: Annotated[int, Field(ge=1, le=900)]


class Consumer(Part):
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
        """The same function, fed from the queue of its held messages: few at once and many at a time, for none is urgent."""
        return self.model_copy(update={"concurrency": 2, "batch": 100, "window_s": 5})

    @property
    def visibility_s(self) -> int:
        """Six times the timeout and the window; https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html"""
        return 6 * self.size.timeout_s + self.window_s


class Matching(Part):
    """How match decides. What is not set is as `MatchSettings` has it.

    A pair of sender and client gets `rate_limit` notifications in `rate_window_seconds`, then none for
    `rate_cooldown_seconds`. A subscription gets `subscription_cap` in any `subscription_cap_seconds`, and at most about
    twice as many. The pipeline's `reconcile` judges by the defaults of these five.
    """

    rate_limit: PositiveInt | None = None
    rate_window_seconds: PositiveInt | None = None
    rate_cooldown_seconds: NonNegativeInt | None = None
    subscription_cap: PositiveInt | None = None
    subscription_cap_seconds: PositiveInt | None = None
    fan_out_page: PositiveInt | None = None


class Following(Part):
    """How ingest follows its nodes. What is not set is as `IngestSettings` has it, which says what each means.

    Two tasks share the five readings a second that a shard of the rules' stream allows.
    """

    first_replay: Literal["record", "handle"] | None = None
    initial_replay_seconds: NonNegativeFloat | None = None
    seen_limit: PositiveInt | None = None
    outbox_bytes: PositiveInt | None = None
    second_look_bytes: PositiveInt | None = None
    lake_linger_seconds: NonNegativeFloat | None = None
    second_look_seconds: PositiveFloat | None = None
    stream_poll_seconds: Annotated[float, Field(ge=0.4)] | None = None
    rules_read_seconds: PositiveFloat | None = None
    lease_seconds: PositiveFloat | None = None
    overlap_seconds: NonNegativeFloat | None = None
    answer_seconds: PositiveFloat | None = None
    replay_seconds: PositiveFloat | None = None
    whole_replay_seconds: PositiveFloat | None = None
    watch_seconds: PositiveFloat | None = None
    renew_seconds: PositiveFloat | None = None
    quiet_seconds: PositiveFloat | None = None
    forget_seconds: PositiveFloat | None = None
    absent_seconds: PositiveFloat | None = None
    save_seconds: PositiveFloat | None = None


class Allowance(Part):
    """How much a client, or one request, is allowed. What is not set is as `ApiSettings` has it."""

    subscriptions_per_client: Annotated[int, Field(ge=1, le=50)] | None = None
    rules_per_subscription: PositiveInt | None = None
    rules_per_request: PositiveInt | None = None
    rules_per_page: Annotated[int, Field(ge=1, le=20_000)] | None = None
    body_bytes: PositiveInt | None = None
    requests_per_ten_seconds: PositiveInt | None = None
    rules_per_minute: PositiveInt | None = None


class PerAddress(Part):
    """What one network address may ask for in a minute. Phones of one carrier or office may share an address.

    With `around`, the API also answers what does not come by way of CloudFront: while the clients of a running API move
    over, see docs/operations.md, "In front of the API".
    """

    requests_per_minute: Annotated[int, Field(ge=10)]
    around: bool = False


class Api(Part):
    """`rate` and `burst` count requests a second over all clients.

    `open_rate` and `open_burst` count them on each route that is reached without a token: those that lead to a token or
    tell of the API, and whatever is no route.

    Whose tokens count: with `jwt_issuer`, those of the existing solution, which share a secret with us and name
    `jwt_audience`; with `login_domain`, those of the standalone login: it is the host name that clients sign, so never
    change it; and those of `issuers`, which publish their keys. None counts that is good for more than
    `token_lifetime_seconds`.

    With `reserved`, each of the two functions runs so often at once at most, set aside from the account's concurrency:
    so that neither slow requests nor many starve the pushes. No account has enough for that from the start:
    docs/operations.md, "What the account needs".

    `per_address` puts CloudFront in front, with a limit for each address. `serve_docs` answers `/docs`, a page of 1.7 MB
    for anybody who asks.

    `direct_push` answers `/v1/notify`, for `pushes_per_minute` of one client.
    """

    size: Size
    authorizer: Size
    rate: Annotated[int, Field(ge=1)]
    burst: Annotated[int, Field(ge=1)]
    open_rate: Annotated[int, Field(ge=1)]
    open_burst: Annotated[int, Field(ge=1)]
    reserved: PositiveInt | None = None
    per_address: PerAddress | None = None
    serve_docs: bool = True
    allowance: Allowance = Allowance()
    direct_push: bool = True
    pushes_per_minute: PositiveInt | None = None
    jwt_issuer: Annotated[str | None, Field(min_length=1)] = None
    jwt_audience: Annotated[str | None, Field(min_length=1)] = None
    token_lifetime_seconds: PositiveInt | None = None
    login_domain: str | None = None
    issuers: tuple[JwksIssuer, ...] = ()
    domain: Annotated[str | None, Field(pattern=r"^([a-z0-9-]+\.)+[a-z]{2,}$")] = None
    certificate_arn: Annotated[str | None, Field(pattern=r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/.+$")] = (
        None
    )

    @model_validator(mode="after")
    def _a_domain_needs_a_certificate(self) -> "Api":
        if (self.domain is None) != (self.certificate_arn is None):
            raise ValueError("domain and certificate_arn go together")
        return self

    @model_validator(mode="after")
    def _somebody_is_trusted(self) -> "Api":
        names = [issuer.issuer for issuer in self.issuers] + ([self.jwt_issuer] if self.jwt_issuer else [])
        if not (names or self.login_domain):
            raise ValueError("nobody's tokens would count")
        if len(set(names)) < len(names):
            raise ValueError("an issuer is configured twice")
        if (self.jwt_audience is None) != (self.jwt_issuer is None):
            raise ValueError("jwt_issuer and jwt_audience go together")
        return self


class App(Part):
    """An app, reached by APNs if it has a `bundle_id` and by FCM if `fcm`, with a secret at each of them.

    A subscription names it by `name`. With `apns_sandbox` a secret of its own holds the key for Apple's sandbox:
    newer keys are good in one environment only.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    alert_title: Title
    bundle_id: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9.-]+$")] = None
    apns_sandbox: bool = False
    fcm: bool = True

    @model_validator(mode="after")
    def _the_sandbox_is_of_apns(self) -> "App":
        if self.apns_sandbox and not self.bundle_id:
            raise ValueError("apns_sandbox needs a bundle_id")
        return self


class Ingest(Part):
    """The Fargate tasks: one at work, the others standing by. `cpu` counts 1,024 to a processor.

    `node_urls` are the statement store's nodes. None is known to everybody, so a deployment has to name its own. They
    hold no key or password: whoever may read the task's definition reads them.
    """

    node_urls: tuple[Annotated[AnyUrl, UrlConstraints(allowed_schemes=["wss"])], ...] = ()
    tasks: Annotated[int, Field(ge=1, le=4)]
    cpu: Literal[256, 512, 1024, 2048]
    memory_mb: Annotated[int, Field(ge=512, le=16_384)]
    following: Following = Following()

    @model_validator(mode="after")
    def _nodes_ask_for_no_key(self) -> "Ingest":
        if any(url.username or url.password or url.query for url in self.node_urls):
            raise ValueError("node_urls: an address must hold no key or password, for it is kept in the clear")
        return self


class Pipeline(Part):
    """The Spark jobs on EMR Serverless; the daily run begins at `hour`, UTC.

    `release` brings Spark and Python as the jobs are tested with. An application has at most so many `workers` at
    once, the driver among them; a new account may use 16 processors, which are four.
    """

    release: Annotated[str, Field(pattern=r"^emr-spark-8\.\d+\.\d+$")] = "emr-spark-8.1.0"
    hour: Annotated[int, Field(ge=1, le=20)]
    workers: Annotated[int, Field(ge=2, le=250)]
    timeout_minutes: Annotated[int, Field(ge=15, le=720)] = 240


class Limits(Part):
    """Where alarms go off. Counts are over five minutes if not said otherwise.

    `call_age_s` holds for each queue that calls go through. `in_flight` counts the messages of one queue, of which SQS
    allows 120,000: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
    `above_ledger` is how many times as much as docs/cost.md says a push may cost.
    """

    ingest_lag_ms: Annotated[int, Field(ge=1)] = 30_000
    rules_behind_ms: Annotated[int, Field(ge=1)] = 60_000
    statement_age_s: Annotated[int, Field(ge=1)] = 60
    push_age_s: Annotated[int, Field(ge=1)] = 300
    call_age_s: Annotated[int, Field(ge=1)] = 30
    cleanup_age_s: Annotated[int, Field(ge=1)] = 3_600
    delivery_p99_ms: Annotated[int, Field(ge=1)] = 10_000
    bad_signatures: Annotated[int, Field(ge=1)] = 100
    node_faults: Annotated[int, Field(ge=1)] = 4
    failed_statements: Annotated[int, Field(ge=1)] = 10
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


class Stubs(Part):
    """Stand-ins for the providers, where an environment must not reach the real ones."""

    apns_url: HttpUrl | None = None
    apns_sandbox_url: HttpUrl | None = None
    fcm_url: HttpUrl | None = None
    ca_file: str | None = None


class Lasting(StrEnum):
    """What becomes of the data when the stack is deleted."""

    KEEP = "keep"
    DISCARD = "discard"


class Environment(Part):
    """One deployment. `ingest` absent means that the statements' source runs elsewhere, `pipeline` that no job runs.

    `apps`: the first, which has both providers, is meant by subscriptions that name none.
    CDK uploads code by way of the roles that `cdk bootstrap` made, or, to `assets_bucket`, as whoever calls it.
    Everything in the lake expires after `lake_days`. Before half of them have passed, the pipeline's daily run writes
    again what is still in force: with fewer than seven, a run that fails would come too close to that.
    """

    stage: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{1,11}$")]
    account: Annotated[str | None, Field(pattern=r"^\d{12}$")] = None
    region: str = "us-east-1"
    platform: Platform = Platform.ARM64
    data: Lasting = Lasting.KEEP
    assets_bucket: str | None = None
    tls_only: bool = True

    apps: Annotated[tuple[App, ...], Field(min_length=1)]

    match: Consumer
    matching: Matching = Matching()
    apns: Consumer
    voip: Consumer
    fcm: Consumer
    cleanup: Consumer
    api: Api
    ingest: Ingest | None
    pipeline: Pipeline | None = None
    providers: Stubs = Stubs()

    log_days: LogDays
    lake_days: Annotated[int, Field(ge=7)]
    lake_buffer_s: Annotated[int, Field(ge=0, le=900)]
    lake_zipped: bool = True
    tracing: bool
    monitored: bool = True
    alarm_email: Annotated[str | None, Field(pattern=r"^[^@\s]+@[^@\s]+$")] = None
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _the_certificate_is_of_the_region(self) -> "Environment":
        if self.api.certificate_arn and self.api.certificate_arn.split(":")[3] != self.region:
            raise ValueError(f"the API's certificate has to be one of {self.region}")
        return self

    @model_validator(mode="after")
    def _cloudfront_is_configured_in_one_region(self) -> "Environment":
        if self.api.per_address and self.region != "us-east-1":
            raise ValueError("per_address needs a stack in us-east-1, where CloudFront looks for its firewall's rules")
        return self

    @model_validator(mode="after")
    def _apps_can_be_told_apart(self) -> "Environment":
        first, *_ = self.apps
        if not (first.bundle_id and first.fcm):
            raise ValueError("the first app needs both providers")
        if len({app.name for app in self.apps}) < len(self.apps):
            raise ValueError("two apps have the same name")
        return self

    @property
    def prefix(self) -> str:
        """What every name of this deployment starts with, so that several fit into one account."""
        return f"clarion-{self.stage}-"
