"""Conditions that are worked out from the present ones, whatever else changes them meanwhile."""

from collections.abc import Callable
from itertools import count
from uuid import uuid4

import pytest

from api.worker import ApiWorker
from clarion import subscriptions
from clarion.channels import Channel
from clarion.endings import Death, declare_dead
from clarion.networks import STATEMENTS
from clarion.rulesets import Changed, Owner, RequestContext, RuleSet, RuleSets, Unchanged
from clarion.subscriptions import Registration
from clarion.tables import Subscription

OWNER = Owner(STATEMENTS, b"r" * 32)
NOW = RequestContext(now=1)
LIMIT = 300
SIZES = [1, 99, 100, 250]


@pytest.fixture
def rule_sets(worker: ApiWorker) -> RuleSets:
    return RuleSets(worker.connection, limit=LIMIT, request_cleanup=lambda *_: None, sleep=lambda _: None)


@pytest.fixture
def sid(worker: ApiWorker) -> str:
    row = subscriptions.register(worker.connection, Registration(*OWNER, Channel.FCM, str(uuid4())), now=1)
    assert isinstance(row, Subscription)
    return row.subscription_id


def keys(size: int) -> list[bytes]:
    return [bytes([1]) + number.to_bytes(64) for number in range(size)]


def longer(_: bytes, present: bytes | None) -> bytes:
    return (present or b"") + b"x"


def in_force(rule_sets: RuleSets, sid: str) -> RuleSet:
    read = rule_sets.read(sid, OWNER)
    assert not isinstance(read, Unchanged)
    return read[1]


@pytest.mark.parametrize("size", SIZES)
def test_conditions_follow_from_those_that_are_there(rule_sets: RuleSets, sid: str, size: int) -> None:
    rule_sets.add(sid, OWNER, {keys(1)[0]: b"first"}, NOW)
    for _ in range(2):
        assert isinstance(rule_sets.renew(sid, OWNER, keys(size), longer, NOW), Changed)
    assert in_force(rule_sets, sid) == {keys(1)[0]: b"firstxx"} | dict.fromkeys(keys(size)[1:], b"xx")


@pytest.mark.parametrize("size", SIZES)
def test_a_change_that_comes_between_is_built_on(rule_sets: RuleSets, sid: str, size: int) -> None:
    """Between the reading and the writing, somebody else writes."""
    calls = count()

    def overtaken(key: bytes, present: bytes | None) -> bytes:
        if next(calls) == 0:
            rule_sets.replace(sid, OWNER, dict.fromkeys(keys(size), b"other"), NOW)
        return longer(key, present)

    changed = rule_sets.renew(sid, OWNER, keys(size), overtaken, NOW)
    assert isinstance(changed, Changed)
    assert in_force(rule_sets, sid) == dict.fromkeys(keys(size), b"otherx")
    assert changed.removed == dict.fromkeys(keys(size), b"other")


def test_what_stays_as_it_is_is_not_written(rule_sets: RuleSets, sid: str) -> None:
    rule_sets.add(sid, OWNER, dict.fromkeys(keys(3), b"same"), NOW)
    before = Subscription.get(sid).revision
    changed = rule_sets.renew(sid, OWNER, keys(3), lambda _, present: present or b"", NOW)
    assert isinstance(changed, Changed)
    assert (changed.added, changed.removed, Subscription.get(sid).revision) == ({}, {}, before)


def test_a_condition_may_become_empty(rule_sets: RuleSets, sid: str) -> None:
    rule_sets.add(sid, OWNER, {keys(1)[0]: b"some"}, NOW)
    changed = rule_sets.renew(sid, OWNER, keys(1), lambda *_: b"", NOW)
    assert isinstance(changed, Changed)
    assert (changed.added, changed.removed, changed.total) == ({keys(1)[0]: b""}, {keys(1)[0]: b"some"}, 1)
    assert in_force(rule_sets, sid) == {keys(1)[0]: b""}


def test_the_limit_counts_new_keys_alone(rule_sets: RuleSets, sid: str) -> None:
    rule_sets.replace(sid, OWNER, dict.fromkeys(keys(LIMIT), b""), NOW)
    assert isinstance(rule_sets.renew(sid, OWNER, keys(LIMIT), longer, NOW), Changed)
    assert rule_sets.renew(sid, OWNER, keys(LIMIT + 1), longer, NOW) is Unchanged.TOO_MANY


def test_a_dead_or_strange_subscription_takes_none(rule_sets: RuleSets, sid: str, worker: ApiWorker) -> None:
    assert rule_sets.renew(sid, Owner(STATEMENTS, b"s" * 32), keys(1), longer, NOW) is Unchanged.NOT_FOUND
    declare_dead(worker.connection, Subscription.get(sid), Death("gone", at=1))
    assert rule_sets.renew(sid, OWNER, keys(1), longer, NOW) is Unchanged.INVALID


# ---- subscriptions whose clients name them -----------------------------------------------------------------------------


@pytest.fixture
def registration() -> Callable[..., Registration]:
    subscription_id = str(uuid4())

    def make(token: str | None = None, channel: Channel = Channel.FCM) -> Registration:
        return Registration(*OWNER, channel, token or str(uuid4()), subscription_id=subscription_id)

    return make


def test_a_named_subscription_begins_after_all_earlier_ones_of_its_name(
    worker: ApiWorker, registration: Callable[..., Registration], rule_sets: RuleSets
) -> None:
    first = subscriptions.register(worker.connection, registration(), now=1000)
    assert isinstance(first, Subscription)
    rule_sets.add(first.subscription_id, OWNER, dict.fromkeys(keys(3), b""), NOW)
    subscriptions.remove(worker.connection, [first.subscription_id], OWNER)
    second = subscriptions.register(worker.connection, registration(), now=2000)
    assert isinstance(second, Subscription)
    assert in_force(rule_sets, second.subscription_id) == {}


def test_a_name_that_is_taken_is_not_registered_twice(
    worker: ApiWorker, registration: Callable[..., Registration]
) -> None:
    assert isinstance(subscriptions.register(worker.connection, registration(), now=1), Subscription)
    assert subscriptions.register(worker.connection, registration(), now=2) is Unchanged.CONTENDED


def test_a_subscription_that_has_changed_meanwhile_is_not_moved(
    worker: ApiWorker, registration: Callable[..., Registration], rule_sets: RuleSets
) -> None:
    row = subscriptions.register(worker.connection, registration(), now=1)
    assert isinstance(row, Subscription)
    rule_sets.add(row.subscription_id, OWNER, dict.fromkeys(keys(1), b""), NOW)
    assert subscriptions.move(worker.connection, row, registration(), now=2) is Unchanged.CONTENDED
    subscriptions.remove(worker.connection, [row.subscription_id], OWNER)
    assert subscriptions.move(worker.connection, row, registration(), now=3) is Unchanged.CONTENDED
    assert not list(Subscription.batch_get([row.subscription_id]))
