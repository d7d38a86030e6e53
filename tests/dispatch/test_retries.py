"""How long a message may wait is what the operator's pages say."""

from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.providers.fcm import FAILURE_PAUSE
from dispatch.attempts import CAP_SECONDS, MAX_TOKEN_FAULTS, delay, hold
from infra.environments import PROD

DOCS = Path(__file__).parents[2] / "docs"
ATTEMPTS = PROD.dispatch.receives
RUNS = 200


def page(name: str) -> str:
    """Its words, whatever lines they are on."""
    return " ".join((DOCS / name).read_text().split())


def total(after_attempt: Callable[[int], float], attempts: int) -> float:
    """Seconds from the first of `attempts` to the last, on average."""
    return mean(sum(after_attempt(number) for number in range(1, attempts)) for _ in range(RUNS))


@given(attempt=st.integers(1, 1_000), after=st.none() | st.floats(0, 40_000))
def test_a_message_never_comes_back_before_its_backoff_nor_before_the_provider_asks_for_it(
    attempt: int, after: float | None
) -> None:
    least = min(CAP_SECONDS, 2.0**attempt) / 2 if attempt < 20 else CAP_SECONDS / 2

    assert max(least, after or 0) <= delay(attempt, after) <= max(2 * least, 1.5 * (after or 0))


@pytest.mark.parametrize("after", [None, FAILURE_PAUSE])
def test_an_outage_of_a_provider_may_last_as_long_as_the_pages_say(after: float | None) -> None:
    hours = round(total(lambda attempt: delay(attempt, after), ATTEMPTS) / 3600)

    assert f"pushes wait in their queue for some {hours} hours" in page("operations.md")
    assert f"after some {hours} hours" in page("dispatch.md")


def test_an_app_may_be_misconfigured_for_as_long_as_the_pages_say() -> None:
    hours = round(total(hold, ATTEMPTS) / 3600)

    assert f"After some {hours} hours it is a dead letter" in page("operations.md")
    assert f"after some {hours} hours, a dead letter" in page("dispatch.md")


def test_what_may_be_one_tokens_fault_is_tried_for_as_long_as_the_pages_say() -> None:
    minutes = total(hold, MAX_TOKEN_FAULTS) / 60

    assert minutes == pytest.approx(22, abs=1.5)
    assert "after some 22 minutes, what may be one token's fault" in page("operations.md")
    assert "some 22 minutes" in page("dispatch.md")


def test_retries_of_one_moment_are_spread() -> None:
    own, asked = ([delay(4, after) for _ in range(RUNS)] for after in (None, 100.0))

    assert 8 <= min(own) < max(own) - 4 <= 12
    assert 100 <= min(asked) < max(asked) - 25 <= 125
