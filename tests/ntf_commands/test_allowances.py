import pytest

from clarion.networks.simplex.bounds import CODES_OF_DEVICE, CODES_OF_DEVICE_AND_PEER
from clarion.tables import Quota
from ntf.commands import allowances
from tests.simplex import DEVICE, Agent, Stage

QUOTA = b"ERR QUOTA"
OTHER_DEVICE = b"cd" * 32


def stranger(stage: Stage, number: int, peer: str = "198.51.100.7") -> Agent:
    agent = stage.agent(f"stranger {number}".encode())
    agent.peer = peer
    return agent


def test_one_address_gets_so_many_codes_for_a_device_in_an_hour(stage: Stage) -> None:
    asked = [stranger(stage, number).register()[:5] for number in range(CODES_OF_DEVICE_AND_PEER + 1)]
    assert asked == [b"IDTKN"] * CODES_OF_DEVICE_AND_PEER + [QUOTA[:5]]
    stage.clock.advance(3600)
    assert stranger(stage, 0).register().startswith(b"IDTKN")


def test_a_stranger_who_hammers_does_not_keep_the_owner_from_a_code(stage: Stage) -> None:
    for number in range(2 * CODES_OF_DEVICE_AND_PEER):
        stranger(stage, number).register()
    assert stranger(stage, 0).register() == QUOTA
    assert stage.agent().activate().status() == b"TKN ACTIVE"


def test_nor_from_another_token(stage: Stage) -> None:
    owner = stage.agent(device=OTHER_DEVICE).activate()
    for number in range(CODES_OF_DEVICE_AND_PEER + 1):
        stranger(stage, number).register()
    assert owner.replace(DEVICE) == b"OK"
    assert owner.verify() == b"OK"


def test_a_replacement_counts_as_a_code(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowances, "CODES_OF_DEVICE_AND_PEER", 2)
    owner = stage.agent().activate()
    assert [owner.replace(OTHER_DEVICE) for _ in range(3)] == [b"OK", b"OK", QUOTA]


def test_what_one_address_is_refused_counts_for_nobody_else(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allowances, "CODES_OF_DEVICE_AND_PEER", 2)
    monkeypatch.setattr(allowances, "CODES_OF_DEVICE", 3)
    assert [stranger(stage, number).register()[:5] for number in range(9)][2:] == [QUOTA[:5]] * 7
    assert stage.agent().register().startswith(b"IDTKN")
    assert stranger(stage, 10, "203.0.113.9").register() == QUOTA
    assert CODES_OF_DEVICE >= 10 * CODES_OF_DEVICE_AND_PEER


def test_what_is_counted_shows_neither_address_nor_device(stage: Stage) -> None:
    stage.agent().register()
    names = [row.quota for row in Quota.scan()]
    assert len(names) == 2
    assert not any("192.0.2.1" in name or "abab" in name for name in names)
    assert all(row.ttl for row in Quota.scan())
