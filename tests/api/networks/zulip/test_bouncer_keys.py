"""The bouncer's keys, as an instance of the router keeps them."""

from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from api.networks.zulip.bouncer_keys import REREAD_SECONDS, REREADS, KeyRing
from api.networks.zulip.errors import ZulipCode, ZulipError
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.registration import RegistrationError
from clarion.secrets import MAX_AGE, Secret, SecretError
from tests.zulip import ZulipDevice, seal

NOW = 1_700_000_000


@dataclass
class Keeper:
    """The secret, and one who opens registrations with it; in seconds, and counting the looks at it."""

    seconds: float = 0.0
    looks: int = 0

    def __post_init__(self) -> None:
        self._client = boto3.client("secretsmanager")
        self._client.meta.events.register("before-call.secrets-manager.GetSecretValue", self._look)
        self.keys = BouncerKeys().rotated(NOW)
        self._name = self._client.create_secret(Name=self.newest, SecretString=self.keys.text)["ARN"]
        secret = Secret(self._client, self._name, BouncerKeys, lambda: self.seconds)
        self._ring = KeyRing(secret, lambda: self.seconds)

    @property
    def newest(self) -> str:
        return self.keys.keys[-1].public

    def change(self, keys: BouncerKeys) -> None:
        self.keys = keys
        self.write(keys.text)

    def write(self, text: str) -> None:
        self._client.put_secret_value(SecretId=self._name, SecretString=text)

    def opens(self, public_key: str) -> bool | None:
        """Whether it is a key of the bouncer's; None if that is to be asked again."""
        device = ZulipDevice()
        sealed = seal(device.registration(NOW), public_key)
        try:
            return self._ring.open(sealed, public_key, token_id=device.token_id, now=NOW).token == device.token
        except RegistrationError as error:
            return error.code != "INVALID_BOUNCER_PUBLIC_KEY"
        except ZulipError as error:
            return None if error.code is ZulipCode.SERVER_NOT_READY else False

    def _look(self, **_: Any) -> None:
        self.looks += 1


@pytest.fixture
def keeper(aws: None) -> Keeper:
    return Keeper()


def test_known_keys_are_not_looked_up_for_each_registration(keeper: Keeper) -> None:
    assert [keeper.opens(keeper.newest) for _ in range(5)] == [True] * 5
    assert keeper.looks == 1


def test_a_new_key_serves_at_once_and_the_old_one_still(keeper: Keeper) -> None:
    old = keeper.newest
    assert keeper.opens(old)
    keeper.change(keeper.keys.rotated(NOW))
    assert keeper.opens(keeper.newest)
    assert keeper.opens(old)
    assert keeper.looks == 2


def unknown_key() -> str:
    return BouncerKeys().rotated(NOW).keys[0].public


def test_a_new_key_serves_at_once_although_another_is_unknown(keeper: Keeper) -> None:
    assert not keeper.opens(unknown_key())
    keeper.change(keeper.keys.rotated(NOW))
    assert keeper.opens(keeper.newest)


def test_all_unknown_keys_together_cost_some_looks_a_minute(keeper: Keeper) -> None:
    opened = [keeper.opens(unknown_key()) for _ in range(2 * REREADS)]
    assert opened == [False] * REREADS + [None] * REREADS
    assert keeper.looks == 1 + REREADS
    keeper.seconds = REREAD_SECONDS
    keeper.change(keeper.keys.rotated(NOW))
    assert keeper.opens(keeper.newest)


def test_an_unknown_key_costs_one_look_a_minute(keeper: Keeper) -> None:
    unknown = unknown_key()
    assert [keeper.opens(unknown) for _ in range(5)] == [False] * 5
    assert keeper.looks == 2
    keeper.seconds = REREAD_SECONDS
    assert [keeper.opens(unknown) for _ in range(5)] == [False] * 5
    assert keeper.looks == 3


def test_a_key_that_was_looked_for_in_vain_is_refused_whatever_others_are_unknown(keeper: Keeper) -> None:
    unknown = [unknown_key() for _ in range(REREADS)]
    assert [keeper.opens(key) for key in unknown] == [False] * REREADS
    assert [keeper.opens(key) for key in (*unknown, unknown_key())] == [False] * REREADS + [None]


def test_a_look_that_fails_is_none(keeper: Keeper) -> None:
    assert keeper.opens(keeper.newest)
    good = keeper.keys.rotated(NOW)
    keeper.write("no JSON")
    new = good.keys[-1].public
    for _ in range(2 * REREADS):
        with pytest.raises(SecretError):
            keeper.opens(new)
    keeper.change(good)
    assert keeper.opens(new)


def test_a_retired_key_ends_after_some_minutes(keeper: Keeper) -> None:
    old = keeper.newest
    assert keeper.opens(old)
    keeper.change(keeper.keys.rotated(NOW).retired(old, NOW))
    assert keeper.opens(old)
    keeper.seconds = MAX_AGE + 1
    assert keeper.opens(old) is False


def test_a_retired_key_is_not_looked_for(keeper: Keeper) -> None:
    old = keeper.newest
    keeper.change(keeper.keys.rotated(NOW).retired(old, NOW))
    assert [keeper.opens(old) for _ in range(2 * REREADS)] == [False] * 2 * REREADS
    assert keeper.looks == 1
