"""No repr, and so no log or traceback, shows a key or what was sealed."""

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType

import pytest

import walletconnect
from clarion.networks import walletconnect as core
from tests.walletconnect_worker.stage import Stage
from walletconnect.request_handlers import Served
from walletconnect.subscription_lists import SubscriptionListing

SECRET = {"claims", "content", "key", "members", "message", "response_key", "subscriptions", "sym_key", "token"}
"""What fields of dataclasses are named that hold keys, tokens, or what tokens say."""


def modules() -> Iterator[ModuleType]:
    for package in (walletconnect, core):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def dataclasses() -> set[type]:
    found = {each for module in modules() for each in vars(module).values() if isinstance(each, type)}
    return {each for each in found if is_dataclass(each)}


@pytest.mark.parametrize("kind", sorted(dataclasses(), key=str))
def test_no_dataclass_shows_a_field_that_is_secret(kind: type) -> None:
    assert [each.name for each in fields(kind) if each.name in SECRET and each.repr] == []


def test_neither_a_listing_nor_an_answer_shows_the_keys_of_subscriptions(stage: Stage) -> None:
    phone = stage.subscribed()
    listing = SubscriptionListing(phone.wallet.account, stage.clock.now)
    [listed] = listing.seen_by(None)
    assert listed["symKey"] == phone.sym_key.hex()
    assert str(listed["symKey"]) not in repr((listing, Served(claims={"sbs": [listed]}, at_ms=stage.clock.ms)))
