"""What workers without shared state make of Apple's rules: no new token within 20 minutes, none older than an hour."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, cast
from uuid import uuid4

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clarion.channels import Channel
from clarion.decisions import PushDecision
from clarion.messages import PushMessage
from clarion.providers.apns import ApnsApp, ApnsPush, PushType
from clarion.providers.credentials import APNS_PERIOD, ApnsCredential, ApnsKey, apns_token
from clarion.providers.outcomes import Answered, Delivered, RetryLater
from clarion.providers.sender import send
from clarion.providers.transport import Answer, Request, Transport
from clarion.secrets import Secret
from clarion.tables import Subscription
from local import keys
from local.apns import Apns, ProviderTokens
from local.apns_trouble import STATUS, troubled_token
from local.provider import InjectedFault
from tests.standins import NOW, Clock

BORDER = NOW // APNS_PERIOD * APNS_PERIOD + APNS_PERIOD
MINUTE = 60.0
TOO_MANY = "TooManyProviderTokenUpdates"

type Write = Callable[..., PushMessage]


@pytest.fixture
def fresh(register: Callable[..., Subscription], message: Write, clock: Clock) -> Write:
    """A push message for a new subscription, observed this very moment."""

    def fresh(channel: Channel = Channel.APNS, token: str | None = None) -> PushMessage:
        now = int(clock())
        row = register(channel, token or f"a{uuid4().hex}{uuid4().hex[1:]}")
        return message(row, observed_at=now * 1000, expires_at=now + 86_400)

    return fresh


def answers(apns: Apns) -> list[str | None]:
    """None for acceptance."""
    return [push.reason for push in apns.received]


def test_pushes_soon_after_a_token_that_was_first_seen_late_arrive_at_once_and_only_once(
    new_worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Apns
) -> None:
    clock.seconds = BORDER - 14 * MINUTE
    queue.put(fresh())
    new_worker().work()
    clock.seconds = BORDER + 3 * MINUTE
    queue.put(*(fresh() for _ in range(20)), *(fresh(Channel.VOIP) for _ in range(20)))

    report = new_worker().work()

    assert report.decisions == {PushDecision.DELIVERED: 40}
    assert report.faults == {}
    assert len(queue) == 0
    accepted = [push.push_id for push in apns.received if push.accepted]
    assert len(accepted) == len(set(accepted)) == 41
    assert Counter(answers(apns)) == {None: 41, TOO_MANY: 1}


def test_a_full_batch_across_the_border_arrives_at_once_and_only_once(
    worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Apns
) -> None:
    clock.seconds = BORDER - MINUTE
    queue.put(fresh())
    worker.work()
    clock.seconds = BORDER
    queue.put(*(fresh() for _ in range(40)))

    assert worker.work().decisions == {PushDecision.DELIVERED: 40}
    assert Counter(answers(apns)) == {None: 41, TOO_MANY: 40}


def test_the_last_token_is_kept_until_the_new_one_is_surely_taken(
    worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Apns
) -> None:
    for minutes in (-1, 0, 1, 10, 19.9, 20, 39, 40, 80):
        clock.seconds = BORDER + minutes * MINUTE
        queue.put(fresh())
        assert worker.work().decisions == {PushDecision.DELIVERED: 1}

    assert answers(apns) == [None, TOO_MANY, *([None] * 8)]


def test_workers_that_start_at_any_moment_deliver_at_once(
    new_worker: Any, queue: Any, clock: Clock, fresh: Write
) -> None:
    workers: list[Any] = []
    for minutes in range(-14, 70, 3):
        clock.seconds = BORDER + minutes * MINUTE
        workers.append(new_worker())
        for worker in workers[-3:] + workers[:3]:
            queue.put(fresh())
            assert worker.work().decisions == {PushDecision.DELIVERED: 1}


def test_a_token_of_somebody_else_with_our_key_costs_two_tries_and_stops_nothing(
    worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Any, apns_key: keys.ApnsKeyPair
) -> None:
    clock.seconds = BORDER + MINUTE
    key = ApnsKey(key_id=apns_key.key_id, team_id=apns_key.team_id, private_key=apns_key.private_key)
    assert apns.judge(apns_token(key, int(clock()))) is None
    sent = fresh()
    queue.put(sent)

    for attempt in range(1, 4):
        report = worker.work()
        assert (report.decisions, report.faults) == ({PushDecision.RETRY: 1}, {})
        assert answers(apns) == [TOO_MANY] * 2 * attempt
        clock.advance(queue.wait(sent))
    clock.seconds = BORDER + 22 * MINUTE

    assert worker.work().decisions == {PushDecision.DELIVERED: 1}


def test_a_refusal_that_passes_is_tried_again_only_once(
    worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Apns
) -> None:
    clock.seconds = BORDER + MINUTE
    queue.put(fresh(token=troubled_token(InjectedFault(TOO_MANY, times=3))))

    assert worker.work().decisions == {PushDecision.RETRY: 1}
    assert answers(apns) == [TOO_MANY] * 2


def test_a_worker_that_shows_the_last_token_moves_on_when_only_the_new_one_is_known(
    new_worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Any, apns_key: keys.ApnsKeyPair
) -> None:
    worker = new_worker()
    for seconds in (-60, 60):
        clock.seconds = BORDER + seconds
        queue.put(fresh())
        worker.work()
    apns.trust(apns_key)  # as does a server that has met none of the workers
    for each in (new_worker(), worker, worker):
        queue.put(fresh())
        assert each.work().decisions == {PushDecision.DELIVERED: 1}

    assert answers(apns) == [None, TOO_MANY, None, None, TOO_MANY, None, None]


@pytest.mark.parametrize("minutes", [20, 25, 39])
def test_late_in_a_period_there_is_no_token_to_go_back_to(
    worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Apns, minutes: int
) -> None:
    clock.seconds = BORDER + minutes * MINUTE
    queue.put(fresh(token=troubled_token(InjectedFault(TOO_MANY))))

    assert worker.work().decisions == {PushDecision.RETRY: 1}
    assert answers(apns) == [TOO_MANY]


def test_a_worker_whose_clock_is_slow_gives_the_last_token_up_when_apple_does(
    new_worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Apns
) -> None:
    slow = new_worker(lambda: clock() - 10)
    for seconds in (-60, 60, 1201):
        clock.seconds = BORDER + seconds
        queue.put(fresh())
        assert slow.work().decisions == {PushDecision.DELIVERED: 1}

    assert answers(apns) == [None, TOO_MANY, None, "ExpiredProviderToken", None]


def test_a_token_that_came_too_late_for_both_rules_is_no_misconfiguration(
    new_worker: Any, queue: Any, clock: Clock, fresh: Write, apns: Apns
) -> None:
    """First seen after its period by a clock that is right: it is void before its successor is taken."""
    slow = new_worker(lambda: clock() - 10)
    clock.seconds = BORDER + 5
    queue.put(fresh())
    slow.work()
    clock.seconds = BORDER + 1201
    call = fresh(Channel.VOIP)
    queue.put(call)

    report = slow.work()

    assert (report.decisions, report.faults) == ({PushDecision.RETRY: 1}, {})
    assert answers(apns) == [None, TOO_MANY, "ExpiredProviderToken"]
    clock.advance(5)
    assert slow.work().decisions == {PushDecision.DELIVERED: 1}


class Judge:
    """Answers pushes as the stand-in does, without a network between; notes how old the tokens were."""

    def __init__(self, key: keys.ApnsKeyPair, clock: Clock) -> None:
        self.ages: list[float] = []
        self._tokens = ProviderTokens([key], clock)
        self._clock = clock

    def send(self, requests: Iterable[Request]) -> list[Answer]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Answer:
        authorization = request.headers[0].removeprefix("authorization: ")
        issued_at = jwt.decode(authorization.split()[1], options={"verify_signature": False})["iat"]
        self.ages.append(self._clock() - issued_at)
        flaw = self._tokens.flaw(authorization)
        return Answer(STATUS[flaw], f'{{"reason": "{flaw}"}}'.encode()) if flaw else Answer(200, b"")


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    start=st.floats(0, APNS_PERIOD),
    pushes=st.lists(st.tuples(st.floats(0, 1500), st.integers(0, 9)), min_size=1, max_size=60),
)
def test_whoever_pushes_whenever_is_delivered_at_once_with_a_token_of_an_hour_at_most(
    apns_key: keys.ApnsKeyPair, secrets: Any, start: float, pushes: list[tuple[float, int]]
) -> None:
    """Worker 0 is always another, as after a start; the others are as old as the run."""
    clock = Clock(NOW + start)
    judge = Judge(apns_key, clock)

    def credential() -> ApnsCredential:
        return ApnsCredential(Secret(secrets, "apns", ApnsKey, clock), clock)

    workers = [credential() for _ in range(10)]
    for pause, worker in pushes:
        clock.advance(pause)
        assert isinstance(push(judge, workers[worker] if worker else credential()), Delivered)

    assert all(0 <= age < 3600 for age in judge.ages)
    assert len(judge.ages) <= 2 * len(pushes)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    errors=st.lists(st.floats(-10, 10), min_size=3, max_size=3),
    pushes=st.lists(st.tuples(st.one_of(st.floats(0, 30), st.floats(0, 1500)), st.integers(0, 2)), max_size=60),
)
def test_clocks_that_are_seconds_off_delay_a_push_by_seconds_and_never_look_like_a_misconfiguration(
    apns_key: keys.ApnsKeyPair, secrets: Any, errors: list[float], pushes: list[tuple[float, int]]
) -> None:
    clock = Clock(NOW + APNS_PERIOD / 2)
    judge = Judge(apns_key, clock)
    off = [lambda error=error: clock() + error for error in errors]
    workers = [ApnsCredential(Secret(secrets, "apns", ApnsKey, clock), wrong) for wrong in off]
    for pause, worker in pushes:
        clock.advance(pause)
        outcome = push(judge, workers[worker])
        if isinstance(outcome, RetryLater):
            clock.advance(20)
            outcome = push(judge, workers[worker])
        assert isinstance(outcome, Delivered)


def push(judge: Judge, credential: ApnsCredential) -> Answered:
    app = ApnsApp(credential, name="first", bundle_id="io.pcf.polkadotapp")
    one = ApnsPush(app=app, token="a1" * 32, body=b"{}", push_type=PushType.ALERT, push_id="")
    (outcome,) = send(cast("Transport", judge), [one])
    return outcome
