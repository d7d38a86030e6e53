from collections.abc import Iterator

import pytest

from tests.simplex import Stage, staged


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(monkeypatch) as made:
        yield made
