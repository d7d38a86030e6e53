"""What the client makes of a refusal: a problem, or the same request again."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from clarion_client import Problem
from clarion_client.clients import MOST_REPEATS, with_repeats
from clarion_client.operations import get_subscription, list_subscriptions, prove_token

BUSY = {"Retry-After": "2"}
PAGE = httpx.Response(200, json=[])


def refusal(status: int, headers: Mapping[str, str] | None = None, **members: Any) -> httpx.Response:
    described = {"Content-Type": "application/problem+json", **(headers or {})}
    return httpx.Response(status, headers=described, json={"title": "No", "status": status, **members})


@pytest.mark.parametrize("status", [429, 503])
def test_a_request_is_repeated_when_the_api_says(status: int) -> None:
    steps = with_repeats(list_subscriptions(), patience=10)
    first = next(steps)
    again = steps.send(refusal(status, BUSY))
    assert (first.delay, again.delay) == (0, 2)
    assert (again.method, again.path, again.body) == (first.method, first.path, first.body)
    with pytest.raises(StopIteration) as end:
        steps.send(PAGE)
    assert end.value.value == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal(503), id="503 that doesn't say when"),
        pytest.param(refusal(500, BUSY), id="500"),
        pytest.param(refusal(409, BUSY), id="409"),
        pytest.param(refusal(429, {"Retry-After": "11"}), id="429 for longer than the caller waits"),
        pytest.param(refusal(429, {"Retry-After": "Fri, 20 Nov 2026 16:23:05 GMT"}), id="429 with a date"),
    ],
)
def test_what_may_not_be_repeated_is_a_problem_at_once(answer: httpx.Response) -> None:
    steps = with_repeats(list_subscriptions(), patience=10)
    next(steps)
    with pytest.raises(Problem):
        steps.send(answer)


def test_repeats_end() -> None:
    steps = with_repeats(list_subscriptions(), patience=1000)
    next(steps)
    for _ in range(MOST_REPEATS):
        steps.send(refusal(503, BUSY))
    with pytest.raises(Problem, match="503") as raised:
        steps.send(refusal(503, BUSY))
    assert raised.value.retry_after == 2


def test_all_waits_together_are_no_longer_than_the_caller_waits() -> None:
    steps = with_repeats(list_subscriptions(), patience=3)
    next(steps)
    steps.send(refusal(503, BUSY))
    with pytest.raises(Problem):
        steps.send(refusal(503, BUSY))


def test_a_problem_says_what_the_api_says() -> None:
    errors = [{"field": "rules[3].topic", "rule": "must be 32 bytes"}]
    problem = Problem.of(refusal(422, type="urn:clarion:problem:invalid", detail="so it is", errors=errors))
    assert (problem.kind, problem.status, problem.errors) == ("invalid", 422, errors)
    assert str(problem) == "HTTP status 422: invalid; No; so it is; rules[3].topic must be 32 bytes"


def test_a_taken_token_names_its_subscription() -> None:
    problem = Problem.of(refusal(409, type="urn:clarion:problem:token-taken", subscription_id="mine"))
    assert (problem.kind, problem.subscription_id) == ("token-taken", "mine")


def test_what_stands_before_the_api_has_no_kind() -> None:
    problem = Problem.of(httpx.Response(502, headers={"Content-Type": "text/html"}, text="<h1>Bad gateway</h1>"))
    assert (problem.kind, str(problem)) == (None, "HTTP status 502")


def test_a_request_shows_no_code() -> None:
    code = "S" * 43
    assert code not in repr(next(prove_token("mine", code)))


def test_an_id_leads_nowhere_else() -> None:
    assert next(get_subscription("../auth?x")).path == "/v1/subscriptions/..%2Fauth%3Fx"
