import pytest

from bench.pace import holds

SUBMITTED = {str(number): number / 100 for number in range(1_000)}


def received(*, lost: int = 0, slow: int = 0) -> dict[str, float]:
    """When, if the first `lost` are not, and the last `slow` are five seconds late."""
    kept = list(SUBMITTED.items())[lost:]
    return {name: at + (5 if number >= len(kept) - slow else 0.1) for number, (name, at) in enumerate(kept)}


@pytest.mark.parametrize(
    ("lost", "slow", "held"), [(0, 0, True), (9, 0, True), (10, 0, False), (0, 5, True), (0, 20, False)]
)
def test_a_pace_is_held_while_less_than_a_hundredth_is_lost_or_slow(lost: int, slow: int, held: bool) -> None:
    assert holds(SUBMITTED, received(lost=lost, slow=slow)) is held
