"""What of the components' own settings an environment may set. The rest, and every default, is the components' own."""

import json
import re
from collections.abc import Mapping
from itertools import chain
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    UrlConstraints,
    model_validator,
)

from clarion.channels import PROVIDERS
from clarion.decisions import Environment, TokenProof
from clarion.issuers import JwksIssuer, issuer_name
from clarion.networks import NETWORKS, network
from clarion.networks.needs import Nodes
from clarion.settings import LimitSettings, NodeBudget
from clarion.tables import TRANSACTION_SUBSCRIPTIONS


class Config(BaseModel):
    """Where a value is refused, its error does not show it: an address with a password may be among them."""

    model_config = ConfigDict(frozen=True, extra="forbid", revalidate_instances="always", hide_input_in_errors=True)

    def as_settings(self) -> dict[str, str]:
        """What is set, as text for a function's environment; for the rest the function's own defaults hold."""
        given = self.model_dump(mode="json", exclude_none=True).items()
        return {name: json.dumps(value) if isinstance(value, dict) else str(value) for name, value in given}


class Size(Config):
    """A Lambda function's share of the machine. Lambda gives one whole processor at 1,769 MB."""

    memory_mb: Annotated[int, Field(ge=128, le=10_240)]
    timeout_s: Annotated[int, Field(ge=1, le=900)]


class Matching(Config):
    """How match decides, as `MatchSettings` has it.

    `limits` are those of a pair of sender and client, by network. A subscription gets `subscription_cap` notifications
    in any `subscription_cap_seconds`, and at most about twice as many.
    """

    limits: dict[str, LimitSettings] | None = None
    subscription_cap: PositiveInt | None = None
    subscription_cap_seconds: PositiveInt | None = None
    fan_out_page: PositiveInt | None = None


class FollowingConfig(Config):
    """How ingest follows its nodes, as `IngestSettings` has it."""

    first_replay: Literal["record", "handle"] | None = None
    initial_replay_seconds: NonNegativeFloat | None = None
    seen_limit: PositiveInt | None = None
    outbox_bytes: PositiveInt | None = None
    second_look_bytes: PositiveInt | None = None
    standby_bytes: PositiveInt | None = None
    rule_lag_seconds: PositiveFloat | None = None
    stream_poll_seconds: Annotated[float, Field(ge=0.4)] | None = None
    lease_seconds: PositiveFloat | None = None
    answer_seconds: PositiveFloat | None = None
    replay_seconds: PositiveFloat | None = None
    whole_replay_seconds: PositiveFloat | None = None
    absent_seconds: PositiveFloat | None = None
    node_budgets: dict[str, NodeBudget] | None = None


KEY_IN_PATH = re.compile("[A-Za-z0-9]{20}")
TWO_READERS = 2
"""So many may read the stream as often as ingest does by itself."""
STREAM_READS_PER_SECOND = 5
"""Of one shard of the rules' stream, by all tasks together. Twice as many run during a deployment, and then are refused
some reads, which they make again."""


class Ingest(Config):
    """The Fargate tasks, which divide the work; with one alone, a crash is a gap. `cpu` counts 1,024 to a processor.

    With `spot` they run on spare capacity, which AWS may take back within two minutes, or not have at all.

    `nodes` are the addresses of each network's. None is known to everybody, so a deployment has to name its own. They
    hold no key or password: whoever may read the task's definition reads them.
    """

    nodes: Mapping[str, tuple[Annotated[AnyUrl, UrlConstraints(allowed_schemes=["wss", "https"])], ...]] = {}
    tasks: Annotated[int, Field(ge=1, le=4)]
    cpu: Literal[256, 512, 1024, 2048]
    memory_mb: Annotated[int, Field(ge=512, le=16_384)]
    spot: bool = False
    following: FollowingConfig = FollowingConfig()

    @model_validator(mode="after")
    def _tasks_share_the_rules_stream(self) -> "Ingest":
        """https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_GetRecords.html"""
        seconds = self.following.stream_poll_seconds
        if self.tasks > TWO_READERS and (seconds is None or self.tasks / seconds > STREAM_READS_PER_SECOND):
            raise ValueError(
                f"stream_poll_seconds: {self.tasks} tasks need {self.tasks / STREAM_READS_PER_SECOND} or more"
            )
        return self

    @model_validator(mode="after")
    def _nodes_ask_for_no_key(self) -> "Ingest":
        if any(_holds_key(url) for url in chain(*self.nodes.values())):
            raise ValueError("an address of a node must hold no key or password, for it is kept in the clear")
        return self

    @model_validator(mode="after")
    def _nodes_are_of_their_networks(self) -> "Ingest":
        for name, urls in self.nodes.items():
            if not (nodes := _nodes_of(name)):
                raise ValueError(f"nodes of {name}, which has none")
            nodes.check(map(str, urls))
        return self

    @model_validator(mode="after")
    def _budgets_are_of_nodes_that_keep_to_one(self) -> "Ingest":
        for name in self.following.node_budgets or ():
            if not ((nodes := _nodes_of(name)) and nodes.budget):
                raise ValueError(f"node_budgets of {name}, whose nodes have none")
        return self


def _holds_key(url: AnyUrl) -> bool:
    """Whether an address has a user, a query, or in its path what looks like a key of a hosted node."""
    return bool(url.username or url.password or url.query or KEY_IN_PATH.search(url.path or ""))


def _nodes_of(name: str) -> Nodes | None:
    return network(name).needs.nodes if name in NETWORKS else None


class NtfTasks(Config):
    """The Fargate tasks of SimpleX's NTF server, which need nothing of one another. `cpu` counts 1,024 to a processor.

    There are `tasks` at least, and up to `most_tasks` while their processors are busy, or they
    have many connections.
    """

    tasks: Annotated[int, Field(ge=1, le=10)]
    most_tasks: Annotated[int, Field(ge=1, le=20)]
    cpu: Literal[256, 512, 1024, 2048]
    memory_mb: Annotated[int, Field(ge=512, le=16_384)]

    @model_validator(mode="after")
    def _most_are_no_fewer(self) -> "NtfTasks":
        if self.most_tasks < self.tasks:
            raise ValueError("most_tasks are fewer than tasks")
        return self


class Stubs(Config):
    """Stand-ins for the providers, where an environment must not reach the real ones: the `addresses` of `PROVIDERS`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str]

    ca_file: str | None = None

    @model_validator(mode="after")
    def _of_providers(self) -> "Stubs":
        if unknown := (self.model_extra or {}).keys() - set(stub_names()):
            raise ValueError(f"no provider has {', '.join(sorted(unknown))}")
        return self


def stub_names() -> tuple[str, ...]:
    return ("ca_file", *(name for row in PROVIDERS.values() for name in row.addresses))


class Allowance(Config):
    """How much a client, or one request, is allowed, as `ApiSettings` has it."""

    subscriptions_per_client: Annotated[int, Field(ge=1, le=TRANSACTION_SUBSCRIPTIONS)] | None = None
    rules_per_subscription: PositiveInt | None = None
    rules_per_request: PositiveInt | None = None
    rules_per_page: Annotated[int, Field(ge=1, le=20_000)] | None = None
    body_bytes: PositiveInt | None = None
    requests_per_ten_seconds: PositiveInt | None = None
    rules_per_minute: PositiveInt | None = None
    looks_per_minute: PositiveInt | None = None


class ServerAllowance(Config):
    """What a server of a network may do, as `ZulipSettings` has it; one may have quotas of its own.

    With the `server_policy` `open` any server may register itself, else only those that the operator has added.
    """

    server_policy: Literal["open", "invited"] | None = None
    devices_per_server: PositiveInt | None = None
    pushes_per_minute: PositiveInt | None = None
    realms_per_server: PositiveInt | None = None


class PerAddress(Config):
    """What one network address may ask for in a minute. Phones of one carrier or office may share an address.

    A network's servers ask from one for all of their users: of `server_requests_per_minute`, apart from the others.

    With `around`, the API also answers what does not come by way of CloudFront: while the clients of a running API move
    over, see docs/operations.md, "In front of the API".
    """

    requests_per_minute: Annotated[int, Field(ge=10)]
    server_requests_per_minute: Annotated[int, Field(ge=10)] = 3_000
    around: bool = False


def _bare(url: HttpUrl) -> HttpUrl:
    if url.username or url.password or url.path != "/" or url.query is not None or url.fragment is not None:
        raise ValueError("an origin is a scheme and a host, with a port if need be")
    return url


WebOrigin = Annotated[HttpUrl, AfterValidator(_bare)]
"""Where a web page comes from."""


class ApiConfig(Config):
    """`rate` and `burst` count requests a second over all clients, and apart from them on each route for servers.

    `open_rate` and `open_burst` count them on each other route that is reached without a client's token, and on whatever is
    no route.

    Whose tokens count: with `jwt_issuer`, those of the existing solution, which share a secret with us and name
    `jwt_audience`; with `login_domain`, those of the standalone login: it is the host name that clients sign, so never
    change it; and those of `issuers`, which publish their keys. None counts that is good for more than
    `token_lifetime_seconds`.

    With `reserved`, each of the two functions runs so often at once at most, set aside from the account's concurrency:
    so that neither slow requests nor many starve the pushes. No account has enough for that from the start:
    docs/operations.md, "What the account needs". `size` is that of the networks' routers, too.

    Web pages of `origins` may call the API, as browsers ask it. `per_address` puts CloudFront in front, with a limit for
    each address. `serve_docs` answers `/docs`, a page of 1.7 MB for anybody who asks.

    `direct_push` answers `/v1/notify`, for `pushes_per_minute` of one client: by default where there are channels of APNs
    and of FCM. `pushes_per_token_per_minute` get to one device, by it and from a network's servers together.

    `apns_environment` is where Apple made the tokens of clients that can't say so.

    `token_proof` says when a client has to prove that a token is its own. `servers` are those that a network knows.
    """

    size: Size
    authorizer: Size
    rate: Annotated[int, Field(ge=1)]
    burst: Annotated[int, Field(ge=1)]
    open_rate: Annotated[int, Field(ge=1)]
    open_burst: Annotated[int, Field(ge=1)]
    reserved: PositiveInt | None = None
    per_address: PerAddress | None = None
    origins: tuple[WebOrigin, ...] = ()
    serve_docs: bool = True
    allowance: Allowance = Allowance()
    servers: ServerAllowance = ServerAllowance()
    direct_push: bool | None = None
    pushes_per_minute: PositiveInt | None = None
    pushes_per_token_per_minute: PositiveInt | None = None
    jwt_issuer: Annotated[str | None, Field(min_length=1)] = None
    jwt_audience: Annotated[str | None, Field(min_length=1)] = None
    token_lifetime_seconds: PositiveInt | None = None
    login_domain: str | None = None
    issuers: tuple[JwksIssuer, ...] = ()
    apns_environment: Environment = Environment.PRODUCTION
    token_proof: TokenProof | None = None
    domain: Annotated[str | None, Field(pattern=r"^([a-z0-9-]+\.)+[a-z]{2,}$")] = None
    certificate_arn: Annotated[str | None, Field(pattern=r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/.+$")] = (
        None
    )

    @model_validator(mode="after")
    def _a_domain_needs_a_certificate(self) -> "ApiConfig":
        if (self.domain is None) != (self.certificate_arn is None):
            raise ValueError("domain and certificate_arn go together")
        return self

    @model_validator(mode="after")
    def _somebody_is_trusted(self) -> "ApiConfig":
        login = issuer_name(self.login_domain) if self.login_domain else None
        names = [*(issuer.issuer for issuer in self.issuers), *filter(None, (self.jwt_issuer, login))]
        if not names:
            raise ValueError("nobody's tokens would count")
        if len(set(names)) < len(names):
            raise ValueError("an issuer is configured twice")
        if (self.jwt_audience is None) != (self.jwt_issuer is None):
            raise ValueError("jwt_issuer and jwt_audience go together")
        return self
