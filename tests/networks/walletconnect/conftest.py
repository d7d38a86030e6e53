import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.walletconnect import Wallet

type Vector = Mapping[str, Any]


@cache
def read() -> Vector:
    found: Vector = json.loads((Path(__file__).parents[2] / "data" / "walletconnect.json").read_text())
    return found


def groups() -> Mapping[str, list[Vector]]:
    """The vectors that a fixture of this name runs through."""
    publishes = read()["live_capture"]["publishes"]
    return {
        "token_vector": read()["vectors"],
        "cacao_vector": read()["cacaos"],
        "publish": publishes,
        "signed_publish": [one for one in publishes if "jwt" in one],
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, cases in groups().items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, cases, ids=_id)


def _id(case: Vector) -> str:
    if "jwt" in case and "case" in case:
        return f"{case['profile']} {case['act']} {case['case']}"
    return str(case.get("case") or case["tag"])


@pytest.fixture(scope="session")
def vectors() -> Vector:
    return read()


@pytest.fixture(scope="session")
def wallet() -> Wallet:
    return Wallet()
