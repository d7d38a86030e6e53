"""Rows of the newest items under whatever is done to them, in whatever order: they stay small, and lose nothing newer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws

from clarion.networks import Newest
from clarion.newest import NewestItem, NewestRow, chosen, ranked, read_item
from clarion.newest_updates import (
    NewestArrival,
    NewestKey,
    noting_sent,
    noting_sent_alone,
    putting_off,
    recording,
    trimming,
)
from tests.match.scene import credentials

MOST, KEPT = 3, 5
OF = Newest(
    most=MOST,
    kept=KEPT,
    delay_seconds=1,
    life_seconds=60,
    name_of=lambda _: "",
    raw_of=lambda _: b"",
    group_of=lambda raw: raw[0],
    fitting=lambda raws: raws[:MOST],
)
TABLE = "newest"
GROUPS, NAMES = 4, 12


@pytest.fixture(scope="module", autouse=True)
def _table() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name, value in credentials().items():
            patch.setenv(name, value)
        boto3.client("dynamodb").create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "subscription_id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "subscription_id", "AttributeType": "S"}],
        )
        yield


def item(name: int, at: int) -> NewestItem:
    return NewestItem(f"{name:02x}", at, bytes([name % GROUPS, name]))


@dataclass
class Played:
    """A row, whom a recorder writes that may have read it before others wrote."""

    key: NewestKey = field(default_factory=lambda: NewestKey(TABLE, str(uuid4())))
    client: Any = field(default_factory=lambda: boto3.client("dynamodb"))

    @property
    def row(self) -> NewestRow:
        found = self.client.get_item(TableName=TABLE, Key={"subscription_id": {"S": self.key.subscription_id}})
        return read_item(found.get("Item", {}))

    def update(self, request: dict[str, Any]) -> bool:
        try:
            self.client.update_item(**request)
        except self.client.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def record(self, items: list[NewestItem]) -> None:
        arrival = NewestArrival(items, 0)
        assert self.update(recording(self.key, OF, arrival)) or self.update(trimming(self.key, OF, arrival, self.row))

    def push(self, found: NewestRow) -> None:
        assert (
            self.update(noting_sent(self.key, OF, found))
            or self.update(noting_sent_alone(self.key, OF, found))
            or (self.row.sent >= found.number)
        )


steps = st.one_of(
    st.lists(st.integers(0, NAMES - 1), min_size=1, max_size=KEPT, unique=True),
    st.just("read"),
    st.just("push"),
)


@settings(deadline=None, max_examples=40)
@given(steps=st.lists(steps, max_size=30), lateness=st.lists(st.integers(0, 3), min_size=30, max_size=30))
def test_whatever_is_done_the_row_stays_small_and_has_the_newest(steps: list[Any], lateness: list[int]) -> None:
    played, found, latest = Played(), NewestRow(0, 0, ()), dict[str, NewestItem]()
    for at, (step, late) in enumerate(zip(steps, lateness, strict=False), start=10):
        if isinstance(step, list):
            items = [item(name, at - late) for name in step]
            played.record(items)
            latest |= {one.name: one for one in items if one.observed_at >= latest.get(one.name, one).observed_at}
        elif step == "read":
            found = played.row
        elif found.number:
            played.push(found)
        row = played.row
        assert len(row.items) < 2 * KEPT
        assert all(one.observed_at == latest[one.name].observed_at for one in row.items)


@given(names=st.sets(st.integers(0, NAMES - 1), min_size=1), shown=st.sets(st.integers(0, NAMES - 1)))
def test_each_group_has_its_turn_among_what_no_push_has_brought(names: set[int], shown: set[int]) -> None:
    items = [item(name, name) for name in sorted(names)]
    row = NewestRow(1, 0, items, {one.digest for one in items if int(one.name, 16) in shown})
    unseen = [one for one in items if not row.is_shown(one)]
    first = ranked(row, OF)[:MOST]
    groups = {one.raw[0] for one in unseen}
    assert len({one.raw[0] for one in first if one in unseen}) == min(MOST, len(groups))
    assert sum(one in unseen for one in first) == min(MOST, len(unseen))
    assert chosen(row, OF) == sorted(first, key=lambda one: one.observed_at)


def test_a_row_that_was_erased_before_its_late_push_was_noted_stays_erased() -> None:
    """Another would have no `ttl`, and be there for ever."""
    played, until = Played(), 20
    assert not played.update(putting_off(played.key, until))
    assert played.row == read_item({})
    played.record([item(1, 10)])
    assert played.update(putting_off(played.key, until))
    assert played.row.late_until == until


def test_a_row_without_anything_has_nothing_to_bring() -> None:
    assert chosen(read_item({}), OF) == []
