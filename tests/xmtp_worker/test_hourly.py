"""What XMTP's worker does every hour."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from clarion import subscriptions
from clarion.channels import Channel
from clarion.cleanup import erase_dead
from clarion.decisions import Purpose, SubscriptionStatus, Wanted
from clarion.messages import CleanupMessage
from clarion.networks import XMTP, Receiver, network
from clarion.networks.xmtp.installations import (
    BUCKETS,
    GRACE_S,
    VALID_S,
    WEEK_S,
    Installation,
    bucket_of,
    note_keys,
)
from clarion.networks.xmtp.rules import TopicCondition, pack, read
from clarion.networks.xmtp.sender_hmac import PERIOD_S
from clarion.rulesets import TRANSACTION_RULES, Owner
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token, rule_key
from clarion.tokens import token_hash
from tests.xmtp_worker.conftest import CLIENT, PERIOD, Account, Clock
from xmtp.hourly import Hourly, HourlyReport

NEVER = math.inf
DAY = 86_400
AROUND = (PERIOD - 1, PERIOD, PERIOD + 1)
"""Of these an app gives keys in `PERIOD`."""


def run(hourly: Hourly) -> HourlyReport:
    report = hourly.run(NEVER)
    assert report.finished
    hourly.events.flush()
    return report


# ---- new keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channel", [Channel.APNS, Channel.FCM, Channel.WEBHOOK])
def test_whose_newest_keys_are_of_this_period_is_asked_once(
    account: Account, hourly: Hourly, clock: Clock, channel: Channel
) -> None:
    row = account.install("phone", channel, newest=PERIOD)
    assert run(hourly).refreshed == 1
    [push] = account.pushes()
    assert (push.network, push.purpose, push.wanted) == (XMTP, Purpose.REFRESH, Wanted.BACKGROUND)
    assert (str(push.subscription_id), push.client_id, push.channel) == (row.subscription_id, CLIENT, channel)
    assert push.expires_at == clock.seconds + VALID_S
    assert "refresh-keys" in str(network(XMTP).payload(channel, push, Receiver("", 4096)).body)
    assert run(hourly).refreshed == 0
    assert not account.pushes()


def test_who_has_keys_of_the_next_period_or_none_is_left_alone(account: Account, hourly: Hourly) -> None:
    account.install("with keys", newest=PERIOD + 1)
    account.install("without")
    assert run(hourly).refreshed == 0


def test_who_has_newer_keys_is_asked_when_they_are_the_last(account: Account, hourly: Hourly, clock: Clock) -> None:
    account.install("phone", newest=PERIOD)
    run(hourly)
    account.subscribe("phone", {"a topic": [PERIOD + 1]})
    assert run(hourly).refreshed == 0
    clock.now = (PERIOD + 1) * PERIOD_S * 1000 + 8 * DAY * 1000
    account.renew("phone")
    assert run(hourly).refreshed == 1
    assert len(account.pushes()) == 2


def test_who_answers_with_the_same_keys_is_not_asked_again_in_that_period(account: Account, hourly: Hourly) -> None:
    account.install("phone", newest=PERIOD)
    run(hourly)
    account.subscribe("phone", {"a topic": [PERIOD]})
    assert run(hourly).refreshed == 0


def test_who_was_missed_for_a_whole_period_is_asked_in_the_next(account: Account, hourly: Hourly) -> None:
    account.install("phone", newest=PERIOD - 1)
    assert run(hourly).refreshed == 1


def test_older_keys_are_no_reason_to_ask_sooner(account: Account, hourly: Hourly) -> None:
    account.install("phone", newest=PERIOD + 1)
    account.subscribe("phone", {"another topic": [PERIOD]})
    assert run(hourly).refreshed == 0


def test_newer_keys_that_went_with_their_topic_don_t_count(account: Account, hourly: Hourly) -> None:
    account.install("phone", newest=PERIOD + 1)
    account.unsubscribe("phone", "a topic")
    account.subscribe("phone", {"a topic": [PERIOD]})
    assert run(hourly).refreshed == 1
    assert run(hourly).refreshed == 0


def test_newer_keys_of_a_call_that_was_refused_don_t_count(account: Account, hourly: Hourly) -> None:
    row = account.install("phone", newest=PERIOD)
    note_keys(row.subscription_id, "phone", PERIOD + 1)
    assert run(hourly).refreshed == 1
    note_keys(row.subscription_id, "phone", PERIOD + 1)
    assert run(hourly).refreshed == 0


def test_keys_of_a_call_that_was_refused_are_no_reason_to_ask(account: Account, hourly: Hourly) -> None:
    row = account.install("phone")
    note_keys(row.subscription_id, "phone", PERIOD)
    assert run(hourly).refreshed == 0
    account.subscribe("phone", {"a topic": [PERIOD]})
    assert run(hourly).refreshed == 1


def test_who_is_pending_is_asked_in_the_same_period_once_it_is_active(
    account: Account, hourly: Hourly, clock: Clock
) -> None:
    row = account.install("phone", newest=PERIOD)
    row.update([Subscription.status.set("pending")])
    for _ in range(2):
        assert run(hourly).refreshed == 0
        clock.advance(3600)
    row.update([Subscription.status.set("active")])
    assert run(hourly).refreshed == 1


def test_who_is_pending_with_newer_keys_waits_for_the_next_period(account: Account, hourly: Hourly) -> None:
    row = account.install("phone", newest=PERIOD + 1)
    row.update([Subscription.status.set("pending")])
    account.subscribe("phone", {"another topic": [PERIOD]})
    run(hourly)
    found = account.installation(row)
    assert found
    assert found.keys_due
    assert found.keys_due >= (PERIOD + 1) * PERIOD_S


def test_in_the_first_week_one_bucket_after_the_other_comes_of_age(
    account: Account, hourly: Hourly, clock: Clock
) -> None:
    names = [f"phone {number}" for number in range(40)]
    clock.now = PERIOD * PERIOD_S * 1000
    for name in names:
        account.install(name, newest=PERIOD)
    step, asked = 42, 0
    for hour in range(0, BUCKETS + step, step):
        asked += run(hourly).refreshed
        assert asked == sum(bucket_of(name) <= hour for name in names)
        clock.advance(step * 3600)
    assert asked == 40


def test_an_hour_that_was_missed_is_made_up_for(account: Account, hourly: Hourly, clock: Clock) -> None:
    clock.now = PERIOD * PERIOD_S * 1000
    account.install("phone", newest=PERIOD)
    clock.advance((BUCKETS + 100) * 3600)
    assert run(hourly).refreshed == 1


def test_buckets_are_of_about_the_same_size() -> None:
    counts = [0] * BUCKETS
    for number in range(100 * BUCKETS):
        counts[bucket_of(f"installation {number}")] += 1
    assert min(counts) > 50
    assert max(counts) < 160


def test_whose_subscription_is_over_is_asked_no_more_but_may_come_back(account: Account, hourly: Hourly) -> None:
    dead = account.install("dead", newest=PERIOD, status="invalid")
    gone = account.install("gone", newest=PERIOD)
    Subscription(gone.subscription_id).delete()
    assert run(hourly).refreshed == 0
    Subscription(dead.subscription_id).update([Subscription.status.set("active")])
    account.subscribe("dead", {"a topic": [PERIOD]})
    assert run(hourly).refreshed == 1


def test_who_has_a_channel_that_is_deployed_no_more_is_not_asked(
    account: Account, new_hourly: Callable[..., Hourly]
) -> None:
    account.install("server", Channel.WEBHOOK, newest=PERIOD)
    report = run(new_hourly(Channel.APNS, Channel.FCM))
    assert (report.refreshed, report.failed) == (0, 0)


def test_a_refresh_that_its_queue_did_not_take_is_sent_by_the_next_run(account: Account, hourly: Hourly) -> None:
    row = account.install("phone", newest=PERIOD)
    url = account.queues.pop("apns")
    account.sqs.delete_queue(QueueUrl=url)
    report = run(hourly)
    assert (report.refreshed, report.failed) == (0, 1)
    account.queues["apns"] = account.sqs.create_queue(QueueName="apns")["QueueUrl"]
    assert run(hourly).refreshed == 1
    assert [str(push.subscription_id) for push in account.pushes()] == [row.subscription_id]


def test_a_run_that_stops_after_sending_repeats_itself_recognisably(
    account: Account, hourly: Hourly, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.install("phone", newest=PERIOD)
    with monkeypatch.context() as patch:
        patch.setattr("xmtp.hourly.note_asked_for_keys", crash)
        with pytest.raises(ZeroDivisionError):
            hourly.run(NEVER)
    run(hourly)
    first, second = account.pushes()
    assert first.envelope_id == second.envelope_id
    assert first.receipt != second.receipt


def test_a_row_that_cannot_be_read_keeps_no_other_from_being_asked(account: Account, hourly: Hourly) -> None:
    broken = Subscription("no uuid", client_id=CLIENT, network=XMTP, channel="apns", token="t", status="active")
    broken.generation = broken.rule_count = broken.created_at = broken.updated_at = 1
    broken.save()
    RuleRow("no uuid", rule_key(1, b"k"), key=b"k", condition=pack(TopicCondition({PERIOD: bytes(42)}))).save()
    row = Installation("no uuid", installation_id="x", bucket=0, valid_until=2**40, end_due=2**40)
    row.keys_due = PERIOD * PERIOD_S
    row.save()
    account.install("phone", newest=PERIOD)
    report = run(hourly)
    assert (report.refreshed, report.failed) == (1, 1)


def crash(*_: object) -> None:
    raise ZeroDivisionError


# ---- old keys ---------------------------------------------------------------------------------------------------


def at(clock: Clock, period: int, day: int) -> None:
    clock.now = (period * PERIOD_S + day * DAY) * 1000


def test_a_key_is_erased_when_its_next_period_is_over_though_its_topic_is_never_named_again(
    account: Account, hourly: Hourly, clock: Clock
) -> None:
    row = account.install("phone")
    account.subscribe("phone", {"left": AROUND})
    held = []
    for period in range(PERIOD, PERIOD + 5):
        for day in (10, 20):
            at(clock, period, day)
            account.renew("phone")
            account.subscribe("phone", {"named": [period - 1, period, period + 1]})
            run(hourly)
            held.append(account.periods(row)["left"])
    kept = [[*AROUND], [PERIOD, PERIOD + 1], [PERIOD + 1], [], []]
    assert held == [periods for periods in kept for _ in range(2)]


def test_an_app_that_only_registers_keeps_no_old_keys(account: Account, hourly: Hourly, clock: Clock) -> None:
    row = account.install("phone")
    account.subscribe("phone", {"loud": AROUND, "quiet": AROUND}, silent=["quiet"])
    for period in range(PERIOD, PERIOD + 4):
        for day in (10, 20):
            at(clock, period, day)
            account.renew("phone")
            run(hourly)
        assert all(held >= period - 1 for held in account.periods(row)["loud"])
    assert account.periods(row) == {"loud": [], "quiet": []}
    assert account.conditions(row)["quiet"] == TopicCondition(silent=True)


def test_an_app_that_answers_within_a_week_has_its_keys_written_once(
    account: Account, hourly: Hourly, clock: Clock
) -> None:
    row = account.install("phone")
    account.subscribe("phone", {"a group": AROUND})
    at(clock, PERIOD + 1, 8)
    account.renew("phone")
    assert run(hourly).refreshed == 1
    account.subscribe("phone", {"a group": [PERIOD, PERIOD + 1, PERIOD + 2]})
    before = Subscription.get(row.subscription_id).revision
    account.events()
    clock.advance(WEEK_S)
    run(hourly)
    assert Subscription.get(row.subscription_id).revision == before
    assert not account.events()


def test_the_lake_is_told_of_conditions_that_lost_a_key_and_of_no_key(
    account: Account, hourly: Hourly, clock: Clock
) -> None:
    row = account.install("phone")
    account.subscribe("phone", {"a group": AROUND})
    prune(account, hourly, clock)
    [event] = [each for each in account.events() if each["event"] == "rules"]
    assert (event["subscription_id"], event["change"], len(event["rules"])) == (row.subscription_id, "added", 1)
    assert not any(key.hex() in json.dumps(event) for key in map(account.hmac_key, AROUND))


def prune(account: Account, hourly: Hourly, clock: Clock) -> HourlyReport:
    """Of keys that were given in `PERIOD`, those of the period before serve no more."""
    at(clock, PERIOD + 1, 8)
    account.renew("phone")
    run(hourly)
    clock.advance(WEEK_S)
    return run(hourly)


def test_many_topics_lose_their_keys_at_one_moment(account: Account, hourly: Hourly, clock: Clock) -> None:
    row = account.install("phone")
    account.subscribe("phone", {f"group {number}": AROUND for number in range(TRANSACTION_RULES + 1)})
    account.drain("cleanup")
    assert prune(account, hourly, clock).failed == 0
    for request in account.drain("cleanup"):
        erase_dead(account.connection, row.subscription_id, CleanupMessage.model_validate_json(request).through)
    assert RuleRow.count(row.subscription_id) == Subscription.get(row.subscription_id).rule_count == 100
    assert all(periods == [PERIOD, PERIOD + 1] for periods in account.periods(row).values())


def test_what_the_app_changes_meanwhile_is_not_undone(
    account: Account, hourly: Hourly, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = account.install("phone")
    account.subscribe("phone", {"renewed": AROUND, "given up": AROUND})
    newer = [PERIOD, PERIOD + 1, PERIOD + 2]

    def change_first(packed: bytes) -> TopicCondition:
        if len(account.conditions(row)) == 2:
            account.unsubscribe("phone", "given up")
            account.subscribe("phone", {"renewed": newer})
        return read(packed)

    monkeypatch.setattr("xmtp.hourly.read", change_first)
    prune(account, hourly, clock)
    assert account.periods(row) == {"renewed": newer}


def test_keys_are_erased_once_though_the_run_stops_before_it_is_noted(
    account: Account, hourly: Hourly, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = account.install("phone")
    account.subscribe("phone", {"a group": AROUND})
    with monkeypatch.context() as patch:
        patch.setattr("xmtp.hourly.note_pruned", crash)
        with pytest.raises(ZeroDivisionError):
            prune(account, hourly, clock)
    revision = Subscription.get(row.subscription_id).revision
    assert account.periods(row) == {"a group": [PERIOD, PERIOD + 1]}
    run(hourly)
    assert Subscription.get(row.subscription_id).revision == revision
    found = account.installation(row)
    assert found
    assert found.keys_due
    assert found.keys_due > clock.seconds


@pytest.mark.parametrize("status", SubscriptionStatus)
def test_old_keys_are_erased_from_the_rules_of_whichever_subscription_has_some(
    account: Account, hourly: Hourly, clock: Clock, status: SubscriptionStatus
) -> None:
    row = account.install("phone")
    account.subscribe("phone", {"a group": AROUND})
    row.update([Subscription.status.set(status.value)])
    prune(account, hourly, clock)
    assert (account.periods(row) == {"a group": [PERIOD, PERIOD + 1]}) == status.has_rules


# ---- the week before the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize("newest", [None, PERIOD + 1])
def test_who_was_not_asked_since_it_registered_is_asked_once_a_week_before_its_end(
    account: Account, hourly: Hourly, clock: Clock, newest: int | None
) -> None:
    at(clock, PERIOD, 1)
    account.install("phone", newest=newest)
    clock.advance(VALID_S - WEEK_S - 1)
    assert run(hourly).refreshed == 0
    clock.advance(1)
    assert run(hourly).refreshed == 1
    clock.advance(WEEK_S - DAY)
    assert run(hourly).refreshed == 0
    [push] = account.pushes()
    assert (push.purpose, push.expires_at) == (Purpose.REFRESH, clock.seconds + DAY)


def test_who_was_asked_for_keys_since_it_registered_is_not_asked_again(
    account: Account, hourly: Hourly, clock: Clock
) -> None:
    account.install("phone", newest=PERIOD)
    clock.advance(1)
    assert run(hourly).refreshed == 1
    clock.advance(VALID_S - DAY)
    assert run(hourly).refreshed == 0
    clock.advance(DAY + GRACE_S)
    assert run(hourly).ended == 1


def test_who_answers_by_registering_is_asked_in_its_next_registration_again(
    account: Account, hourly: Hourly, clock: Clock
) -> None:
    account.install("phone")
    for _ in range(2):
        clock.advance(VALID_S - WEEK_S)
        assert run(hourly).refreshed == 1
        account.renew("phone")
    first, second = account.pushes()
    assert first.envelope_id != second.envelope_id


def test_an_ask_that_was_not_noted_is_repeated_recognisably(
    account: Account, hourly: Hourly, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.install("phone")
    clock.advance(VALID_S - WEEK_S)
    with monkeypatch.context() as patch:
        patch.setattr("xmtp.hourly.note_ending", crash)
        with pytest.raises(ZeroDivisionError):
            hourly.run(NEVER)
    assert run(hourly).refreshed == 1
    first, second = account.pushes()
    assert first.envelope_id == second.envelope_id


def test_whose_push_queue_takes_nothing_is_asked_later_and_ends_in_time(
    account: Account, hourly: Hourly, clock: Clock
) -> None:
    account.install("phone")
    clock.advance(VALID_S - DAY)
    account.sqs.delete_queue(QueueUrl=account.queues.pop("apns"))
    assert run(hourly).failed == 1
    clock.advance(DAY + GRACE_S)
    assert run(hourly).ended == 1


# ---- the end --------------------------------------------------------------------------------------------------------


def test_an_installation_that_is_not_registered_again_ends(account: Account, hourly: Hourly, clock: Clock) -> None:
    row = account.install("phone")
    clock.advance(VALID_S + GRACE_S - 1)
    assert run(hourly).ended == 0
    clock.advance(1)
    assert run(hourly).ended == 1
    ended = Subscription.get(row.subscription_id)
    assert (ended.status, ended.status_reason) == ("invalid", "registration_over")
    assert ended.generation > row.generation
    assert Token.count(token_hash(Channel.APNS, row.token)) == 0
    assert account.installation(row) is None
    [request] = account.drain("cleanup")
    assert [str(name) for name in CleanupMessage.model_validate_json(request).subscription_ids] == [row.subscription_id]
    [event] = account.events()
    assert (event["event"], event["network"], event["status"]) == ("subscription", XMTP, "invalid")
    assert event["status_reason"] == "registration_over"
    assert run(hourly).ended == 0


def test_one_that_is_registered_again_stays(account: Account, hourly: Hourly, clock: Clock) -> None:
    row = account.install("phone")
    clock.advance(VALID_S - DAY)
    account.renew("phone")
    clock.advance(2 * DAY)
    assert run(hourly).ended == 0
    assert Subscription.get(row.subscription_id).status == "active"


def test_one_that_is_registered_again_at_the_last_moment_stays(
    account: Account, hourly: Hourly, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the worker's looks and its write, the client comes back: as young as it is then, it can't be over."""
    row = account.install("phone")
    clock.advance(VALID_S + GRACE_S + 60)
    again = Registration(XMTP, CLIENT, Channel.APNS, row.token, subscription_id=row.subscription_id)

    def renew_first(*arguments: Any, **others: Any) -> None:
        subscriptions.move(account.connection, Subscription.get(row.subscription_id), again, now=clock())
        account.renew("phone")
        hourly_cleanup(*arguments, **others)

    hourly_cleanup = hourly.cleanup.send
    monkeypatch.setattr(hourly.cleanup, "send", renew_first)
    assert run(hourly).ended == 0
    assert Subscription.get(row.subscription_id).status == "active"
    found = account.installation(row)
    assert found
    assert found.valid_until == clock.seconds + VALID_S


def test_a_run_that_stops_half_way_is_completed_by_the_next(
    account: Account, hourly: Hourly, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = account.install("phone")
    clock.advance(VALID_S + GRACE_S + 1)
    with monkeypatch.context() as patch:
        patch.setattr("xmtp.hourly.delete_ended", crash)
        with pytest.raises(ZeroDivisionError):
            hourly.run(NEVER)
    assert Subscription.get(row.subscription_id).status == "invalid"
    assert run(hourly).ended == 0
    assert account.installation(row) is None


def test_what_its_subscription_has_left_behind_goes_as_well(account: Account, hourly: Hourly, clock: Clock) -> None:
    row = account.install("phone")
    removed = subscriptions.remove(account.connection, [row.subscription_id], Owner(XMTP, CLIENT))
    assert isinstance(removed, list)
    clock.advance(VALID_S + GRACE_S + 1)
    assert run(hourly).ended == 0
    assert account.installation(row) is None


def test_one_that_cannot_be_ended_keeps_no_other_alive(account: Account, hourly: Hourly, clock: Clock) -> None:
    broken, other = account.install("broken"), account.install("other")
    Subscription(broken.subscription_id).update([Subscription.channel.set("pigeon")])
    clock.advance(VALID_S + GRACE_S + 1)
    report = run(hourly)
    assert (report.ended, report.failed) == (1, 1)
    assert Subscription.get(other.subscription_id).status == "invalid"


def test_nothing_is_begun_once_the_time_is_up(account: Account, hourly: Hourly, clock: Clock) -> None:
    account.install("phone", newest=PERIOD)
    report = hourly.run(0)
    assert (report.finished, report.refreshed) == (False, 0)
    assert run(hourly).refreshed == 1


def test_no_token_reaches_the_lake_or_a_queue(account: Account, hourly: Hourly, clock: Clock) -> None:
    account.install("phone", newest=PERIOD)
    account.install("old")
    run(hourly)
    clock.advance(VALID_S + GRACE_S + 1)
    run(hourly)
    written = [body for name in (*Channel, "cleanup") for body in account.drain(name)]
    assert written
    assert "token of" not in json.dumps([written, account.events()])
