"""What the routes work with: settings, tables, the event log and a clock, made once; and the request being answered."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Self

from aws_lambda_powertools.metrics import MetricUnit
from botocore.session import Session
from pynamodb.connection import Connection
from pynamodb.models import Model

from api.problems import Problem, ProblemKind
from api.settings import ApiSettings, ClientSettings
from clarion import aws
from clarion.cleanup import CleanupQueue
from clarion.clock import now_ms
from clarion.event_log import EventLog, EventWriter
from clarion.metrics import Metric, metrics_of
from clarion.rulesets import Owner, RuleSets
from clarion.secrets import OriginSecret, Secret, SharedSecret
from clarion.settings import EventSettings, Settings
from clarion.tables import bind

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True, slots=True)
class Login:
    """The standalone login: the name that clients know the service by, and the key of its challenges and tokens."""

    domain: str
    _secret: Secret[SharedSecret] = field(repr=False)

    @property
    def secret(self) -> str:
        return self._secret.get().secret.get_secret_value()


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What an instance of a function that answers requests keeps from one to the next. A network's own lies elsewhere.

    `service` is the component that its metrics are counted for.
    """

    settings: Settings
    connection: Connection
    sqs: "SQSClient"
    origin: Secret[OriginSecret] | None = None
    now: Callable[[], int] = field(default=now_ms)
    service: str = "api"

    def counted(self, problem: Problem) -> Problem:
        """The problem, once it is counted if it is the service's own."""
        if problem.kind is ProblemKind.UNAVAILABLE:
            self.count(Metric.REQUESTS_FAILED)
        return problem

    def count_status(self, status: int) -> None:
        """To be called for each answer, which API Gateway counts by its status."""
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            self.count(Metric.ANSWERED_5XX)

    def count(self, metric: str, count: int = 1) -> None:
        metrics = metrics_of(self.service, self.settings.stage)
        metrics.add_metric(metric, MetricUnit.Count, count)
        metrics.flush_metrics()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittingWorker(Worker):
    """Of a function that emits events."""

    settings: EventSettings
    events: EventLog

    def emit_events(self) -> None:
        """What was changed stays changed: an event that is lost counts in a metric and fails no request."""
        if lost := self.events.flush():
            self.count(Metric.EVENTS_LOST, lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWorker(EmittingWorker):
    """Of a function that serves clients. `kept_beside` is as in `clarion.subscriptions.remove`."""

    settings: ClientSettings
    rule_sets: RuleSets
    cleanup: CleanupQueue
    kept_beside: type[Model] | None = None

    @classmethod
    def serving(cls, settings: ClientSettings, *, kept_beside: type[Model] | None = None) -> Self:
        own_tables = (kept_beside,) if kept_beside else ()
        connection = bind(settings.table_prefix, own=own_tables)
        session = connection.session
        sqs = aws.sqs(session)
        cleanup = CleanupQueue(sqs, settings.cleanup_queue_url)
        return cls(
            settings=settings,
            connection=connection,
            rule_sets=RuleSets(connection, limit=settings.rules_per_subscription, request_cleanup=cleanup.send_claim),
            cleanup=cleanup,
            sqs=sqs,
            events=event_log(session, sqs, settings),
            origin=origin_of(session, settings.origin_secret_id),
            kept_beside=kept_beside,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiWorker(ClientWorker):
    """What one instance of the API's own function keeps."""

    settings: ApiSettings
    login: Login | None = None

    @classmethod
    def open(cls, settings: ApiSettings) -> Self:
        worker = cls.serving(settings)
        return replace(worker, login=_login(worker.connection.session, settings))


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A request being answered: `client_id` is its sender, if it needs one; after `until` it begins nothing new."""

    worker: ClientWorker
    client_id: bytes | None
    until: float

    @property
    def client(self) -> bytes:
        if self.client_id is None:
            raise Problem(ProblemKind.UNAUTHENTICATED)
        return self.client_id

    def owner(self, network: str) -> Owner:
        return Owner(network, self.client)


@dataclass(frozen=True, slots=True)
class ApiRequest(ClientRequest):
    """One of the API's own function."""

    worker: ApiWorker


_CURRENT: ContextVar[ApiRequest] = ContextVar("request")


@contextmanager
def answering(request: ApiRequest) -> Iterator[None]:
    """Within it, `current` is this request."""
    before = _CURRENT.set(request)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def current() -> ApiRequest:
    return _CURRENT.get()


def origin_of(session: Session, secret_id: str | None) -> Secret[OriginSecret] | None:
    return Secret(aws.secrets(session), secret_id, OriginSecret) if secret_id else None


def event_log(session: Session, sqs: "SQSClient", settings: EventSettings) -> EventLog:
    return EventLog(EventWriter(aws.firehose(session), sqs, settings))


def _login(session: Session, settings: ApiSettings) -> Login | None:
    if settings.login_secret_id is None or settings.login_domain is None:
        return None
    return Login(settings.login_domain, Secret(aws.secrets(session), settings.login_secret_id, SharedSecret))
