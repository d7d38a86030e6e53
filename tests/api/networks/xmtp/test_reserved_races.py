"""Topics, registration and deletion of one installation at the same time, whatever the order of their requests."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import Installation, subscription_id_of
from clarion.networks.xmtp.rules import key_of
from clarion.rulesets import Owner
from clarion.tables import Subscription, Token
from clarion.tokens import token_hash
from tests.api.networks.xmtp.conftest import Phone
from tests.api.test_races import (
    SCHEDULES,
    Op,
    Runner,
    race,
    watched,  # noqa: F401 - a fixture
)
from tests.xmtp import TOPIC, WELCOMES

TOPICS = {"Subscribe": TOPIC, "SubscribeWithMetadata": WELCOMES}
CRASHES = st.none() | st.integers(0, 12)


@pytest.mark.usefixtures("xmtp_worker", "watched")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deletes=st.booleans(), crashes=st.lists(CRASHES, min_size=4, max_size=4), schedule=SCHEDULES)
def test_what_is_answered_holds_whichever_comes_first(
    new_phone: Callable[[], Phone], deletes: bool, crashes: list[int | None], schedule: list[tuple[int, int]]
) -> None:
    phone, token = new_phone(), uuid4().hex * 2
    name, owner = subscription_id_of(phone.client_id, phone.installation), Owner(XMTP, phone.client_id)
    calls: dict[str, dict[str, Any]] = {
        "Subscribe": {"topics": [TOPIC]},
        "SubscribeWithMetadata": {"subscriptions": [{"topic": WELCOMES}]},
        "RegisterInstallation": {"deliveryMechanism": {"apnsDeviceToken": token}},
        "DeleteInstallation": {},
    }
    methods = [*calls] if deletes else [*calls][:-1]
    runners = [Runner(Op(method), crash_after) for method, crash_after in zip(methods, crashes, strict=False)]
    race(runners, iter(schedule), lambda op: phone(op.kind, calls[op.kind]).status)

    assert all(runner.requests or runner.error for runner in runners), "nobody watched their requests"
    refusals = {404, 503} if deletes else {503}
    assert {runner.answer for runner in runners if not runner.error} <= {200} | refusals
    rows, holders = list(Subscription.batch_get([name])), list(Token.query(token_hash(Channel.APNS, token)))
    assert len(list(Installation.batch_get([name]))) == len(rows)
    assert [holder.subscription_id for holder in holders] == [
        row.subscription_id for row in rows if row.status == SubscriptionStatus.ACTIVE
    ]
    if deletes:
        return
    done = {runner.op.kind for runner in runners if runner.answer == 200}
    if "RegisterInstallation" in done:
        assert rows[0].status == SubscriptionStatus.ACTIVE
    if rows:
        _, in_force = phone.worker.rule_sets.read(name, owner)  # type: ignore[misc] # it is there
        assert in_force.keys() >= {key_of(TOPICS[method]) for method in done & TOPICS.keys()}
