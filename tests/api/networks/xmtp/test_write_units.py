"""What each call costs in DynamoDB write units, against the table in docs/xmtp.md."""

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from clarion.clock import now_ms
from clarion.networks.xmtp.installations import Installation, subscription_id_of
from clarion.networks.xmtp.sender_hmac import period_at
from tests.api.networks.xmtp.conftest import Clock
from tests.api.test_write_units import metered

PAGE = (Path(__file__).parents[4] / "docs" / "xmtp.md").read_text()
TABLE = PAGE.partition("## What a call costs")[2].partition("\n## ")[0]
DOCUMENTED = {what: int(units) for what, units in re.findall(r"^\| (.+?) \| (\d+) \|$", TABLE, re.MULTILINE)}
SORTED_BY = ("end_due", "keys_due")
"""What the two indexes of `installations` go by: a new value is written there, and the one before erased."""


def topics(first: int, end: int, period: int) -> dict[str, Any]:
    """With three keys each, as the SDK hands them out around `period`."""
    keys = [
        {"thirtyDayPeriodsSinceEpoch": near, "key": b64encode(bytes([near % 256]) * 42).decode()}
        for near in (period - 1, period, period + 1)
    ]
    return {"subscriptions": [{"topic": f"/xmtp/mls/1/g-{n:032x}/proto", "hmacKeys": keys} for n in range(first, end)]}


def sorted_values(phone: Any) -> list[int | None]:
    found = list(Installation.batch_get([subscription_id_of(phone.client_id, phone.installation)]))
    return [getattr(row, name) for row in found for name in SORTED_BY] or [None] * len(SORTED_BY)


@contextmanager
def counted(phone: Any, what: str) -> Iterator[None]:
    """Compare the units of what is done inside, those of the indexes included, with the page's."""
    before = sorted_values(phone)
    with metered(phone.worker) as meter:
        yield
    changes = zip(before, sorted_values(phone), strict=True)
    indexed = sum((old is not None) + (new is not None) for old, new in changes if old != new)
    assert {what: meter.units + indexed} == {what: DOCUMENTED[what]}


def test_registering_costs_what_the_page_says(phone: Any, clock: Any) -> None:
    token = uuid4().hex * 2
    phone("DeleteInstallation")
    with counted(phone, "register"):
        assert phone.register(token).status == 200
    clock.now += 86_400_000
    with counted(phone, "register again, with the same token"):
        assert phone.register(token).status == 200
    clock.now += 86_400_000
    with counted(phone, "register again, with another token"):
        assert phone.register().status == 200


def test_subscribing_costs_what_the_page_says(registered: Any, clock: Any) -> None:
    period = period_at(clock.now // 1000)
    with counted(registered, "subscribe to 10 topics with keys, the first time"):
        assert registered("SubscribeWithMetadata", topics(0, 10, period)).status == 200
    with counted(registered, "subscribe to the same again with the same keys"):
        assert registered("SubscribeWithMetadata", topics(0, 10, period)).status == 200
    with counted(registered, "subscribe to one more"):
        assert registered("SubscribeWithMetadata", topics(10, 11, period)).status == 200
    clock.now += 30 * 86_400_000
    with counted(registered, "subscribe to 11 topics with the keys of the next period"):
        assert registered("SubscribeWithMetadata", topics(0, 11, period + 1)).status == 200
    with counted(registered, "unsubscribe from one"):
        assert registered("Unsubscribe", {"topics": ["/xmtp/mls/1/g-" + "0" * 32 + "/proto"]}).status == 200


def test_subscribing_before_registering_costs_what_the_page_says(phone: Any) -> None:
    clock = Clock(now_ms())
    phone.worker = replace(phone.worker, now=clock)
    with counted(phone, "subscribe to 10 topics with keys before the registration"):
        assert phone("SubscribeWithMetadata", topics(0, 10, period_at(clock.now // 1000))).status == 200
    clock.now += 1000
    with counted(phone, "register then"):
        assert phone.register().status == 200


def test_subscribing_to_many_costs_what_the_page_says(registered: Any, clock: Any) -> None:
    with counted(registered, "subscribe to 1000 topics with keys, the first time"):
        assert registered("SubscribeWithMetadata", topics(0, 1000, period_at(clock.now // 1000))).status == 200
