import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.decisions import PushDecision
from clarion.messages import RemainderMessage, read_match_message
from clarion.networks import STATEMENTS, XMTP
from pipeline import arguments
from pipeline.erase.run import erase
from pipeline.generator.plan import Plan
from pipeline.jobs.replay import chosen
from pipeline.lake.event_lake import EventLake
from pipeline.lake.lookup import Lookup
from pipeline.lake.plans import run_name
from pipeline.lake.schemas import DIFFERENCE, PLAN
from pipeline.period import HOUR_MS, Period
from pipeline.repair import replay
from tests.pipeline.conftest import NOW
from tests.pipeline.small_lake import CLIENT, OTHER, PHONE, START, TABLET, SmallLake, Way, subscribed

FOLLOWED = STATEMENTS, XMTP
"""The networks that show envelopes."""
QUICK = 1e9


class Queues:
    """Keeps what it is sent; from the call `refuse_from` on, it refuses."""

    def __init__(self, refuse_from: int = 1 << 30) -> None:
        self.sent: list[tuple[str, str]] = []
        self.called_at: list[float] = []
        self._calls_left = refuse_from

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803 - boto
        self._calls_left -= 1
        self.called_at.append(time.monotonic())
        if self._calls_left < 0:
            return {"Failed": [{"Id": entry["Id"], "Code": "Throttled"} for entry in Entries]}
        self.sent += [(QueueUrl, entry["MessageBody"]) for entry in Entries]
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}


@pytest.fixture(scope="module")
def lost(differences: DataFrame) -> set[tuple[str, str]]:
    repairable = differences.where(F.col("difference").isin("missing", "wrongly_dropped"))
    return {(row[0], row[1]) for row in repairable.select("receipt", "subscription_id").collect()}


def send(lake: EventLake, queues: Queues) -> int:
    return _send(lake, queues, QUICK, lambda _: None).messages


@pytest.mark.usefixtures("adaptive")
def test_a_replay_sends_each_loss_once_even_if_it_is_stopped_and_run_again(
    day: EventLake, plan: Plan, differences: DataFrame, lost: set[tuple[str, str]]
) -> None:
    now = plan.start + 24 * 3_600_000
    dry = replay.plan(day, differences, plan.period, now, dry_run=True)
    assert send(day, Queues()) == 0
    planned = replay.plan(day, differences, plan.period, now, dry_run=False)
    assert planned == dry
    assert planned.messages == len(lost)
    stopped = Queues(refuse_from=1)
    with pytest.raises(replay.ReplayStopped):
        send(day, stopped)
    rest = Queues()
    send(day, rest)
    sent = Counter(stopped.sent + rest.sent)
    assert max(sent.values()) == 1 or sum(sent.values()) - len(sent) <= replay.BATCH
    assert len(sent) == planned.messages
    again = replay.plan(day, differences, plan.period, now + 1_000, dry_run=False)
    assert (again.messages, again.known) == (0, len(lost))
    assert send(day, Queues()) == 0
    messages = [read_match_message(body) for _, body in sent]
    asked = {
        (str(one.receipt), name)
        for one in messages
        if isinstance(one, RemainderMessage)
        for name in one.subscription_ids
    }
    assert asked == lost
    assert {one.network for one in messages} == {*FOLLOWED}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_replay_may_be_of_one_network_alone(differences: DataFrame, name: str) -> None:
    wanted = arguments.parse(["replay", "--lake", "/var/lake", "--network", name, "--difference", "missing"])
    of_these = differences.where((F.col("network") == name) & (F.col("difference") == "missing"))
    assert chosen(differences, wanted).count() == of_these.count() > 0


def test_a_client_without_an_id_gets_nothing_rather_than_everybody(differences: DataFrame) -> None:
    wanted = arguments.parse(["replay", "--lake", "/var/lake"])
    wanted.client = b""
    assert chosen(differences, wanted).isEmpty()


def test_a_client_that_is_erased_takes_no_message_of_others_with_it(lake: EventLake) -> None:
    """Each subscription has a message of its own."""
    small, way = SmallLake(lake.root), Way()
    small.commit(subscribed(), subscribed(TABLET, OTHER))
    small.commit(way.observed())
    lost = [
        {"difference": "missing", "receipt": str(way.receipt), "subscription_id": str(to)} for to in (PHONE, TABLET)
    ]
    differences = lake.spark.createDataFrame(lost, DIFFERENCE)
    period = Period(START, START + HOUR_MS)
    planned = replay.plan(lake, differences, period, START + HOUR_MS, dry_run=False)
    assert planned.messages == 2
    assert (
        erase(lake.root, CLIENT, dry_run=False, on_progress=lambda _: None).removed[f"replays/run={planned.run}"] == 1
    )
    queues = Queues()
    assert send(lake, queues) == 1
    [(_, body)] = queues.sent
    assert read_match_message(body).receipt == way.receipt
    assert Lookup(lake.root).replayed({way.receipt}, START) == {(way.receipt, TABLET)}
    assert replay.plan(lake, differences, period, START + HOUR_MS, dry_run=True).known == 1


def test_what_has_expired_is_left(
    day: EventLake, plan: Plan, differences: DataFrame, lost: set[tuple[str, str]]
) -> None:
    next_year = plan.start + 400 * 24 * 3_600_000
    late = replay.plan(_unplanned(day), differences, plan.period, next_year, dry_run=True)
    assert late.messages + late.expired == len(lost)
    assert late.expired > late.messages


def test_a_replay_for_one_subscription_names_it_alone_and_a_later_one_only_the_others(lake: EventLake) -> None:
    SmallLake(lake.root).commit(Way(START, 1).observed())
    lost = _lost(lake, 1, 3)
    assert _planned(lake, lost.where(F.col("subscription_id") == str(UUID(int=2)))) == {(1, 2)}
    assert _planned(lake, lost) == {(1, 1), (1, 3)}
    assert _planned(lake, lost) == set()


def test_of_an_envelope_that_was_queued_for_some_the_rules_of_now_decide_who_else_gets_it(lake: EventLake) -> None:
    way = Way(START, 1)
    SmallLake(lake.root).commit(way.observed(), way.notification(to=UUID(int=1)), way.notification(to=UUID(int=2)))
    assert _planned(lake, _lost(lake, 1, 2)) == {(1, 1), (1, 2)}


def _lost(lake: EventLake, number: int, subscriptions: int) -> DataFrame:
    """The first so many subscriptions have not got the statement."""
    way = Way(START, number)
    rows = [
        {
            "difference": "missing",
            "receipt": str(way.receipt),
            "subscription_id": str(UUID(int=one)),
            "network": STATEMENTS,
            "client_id": CLIENT,
            "key": way.key,
            "channel": "fcm",
            "wanted": "alert",
        }
        for one in range(1, subscriptions + 1)
    ]
    return lake.spark.createDataFrame(rows, DIFFERENCE)


def _planned(lake: EventLake, lost: DataFrame) -> set[tuple[int, int]]:
    """Statements and subscriptions that the messages of a new run are for."""
    before = {row["message"] for row in lake.plans(0).collect()}
    replay.plan(lake, lost, Period(START, START + 3_600_000), START + 3_600_000, dry_run=False)
    lake.view.refresh()
    after = {row["message"] for row in lake.plans(0).collect()}
    messages = list(map(read_match_message, after - before))
    assert all(isinstance(one, RemainderMessage) for one in messages)
    named = [(one, name) for one in messages if isinstance(one, RemainderMessage) for name in one.subscription_ids]
    return {(int(one.receipt) - 1_000, int(UUID(name))) for one, name in named}


def test_a_replay_keeps_to_its_rate_and_a_second_run_sends_nothing(lake: EventLake) -> None:
    rows = [(place, f"r{place}", "s", f"message {place}") for place in range(3 * replay.BATCH)]
    lake.write_named(run_name("000001"), lake.spark.createDataFrame(rows, PLAN), NOW)
    queues, reported = Queues(), list[int]()
    begun = time.monotonic()
    sent = _send(lake, queues, 10 * replay.BATCH, reported.append)
    assert (sent.messages, reported) == (30, [10, 20, 30])
    assert queues.sent == [("envelopes", f"message {place}") for place in range(30)]
    assert all(at - begun >= 0.1 * number for number, at in enumerate(queues.called_at))
    assert send(lake, queues) == 0


def test_what_has_come_to_an_end_since_a_run_was_stopped_is_not_sent(lake: EventLake) -> None:
    """The line of one push came late, of an hour before it was planned; dispatch is trying another one again."""
    small, ways = SmallLake(lake.root), [Way(START + number, number) for number in range(1, 5)]
    plan_missing(lake, ways, later := START + 6 * HOUR_MS)
    with pytest.raises(replay.ReplayStopped):
        send(lake, Queues(refuse_from=0))
    delivered, stale, retried, untried = ways
    small.commit(delivered.push(), at=START + 3 * HOUR_MS)
    small.commit(stale.push(PushDecision.STALE), retried.push(PushDecision.RETRY), at=later + HOUR_MS)
    lake.view.refresh()
    [left] = still_to_send(lake)
    assert (left.since, left.messages.count()) == (retried.began, 2)
    queues = Queues()
    assert send(lake, queues) == 2
    assert {read_match_message(body).receipt for _, body in queues.sent} == {retried.receipt, untried.receipt}
    assert replay.unfinished(lake.root, NOW) == []


def test_a_stopped_run_whose_pushes_have_all_ended_has_no_first_observation_and_sends_nothing(lake: EventLake) -> None:
    small, way = SmallLake(lake.root), Way()
    plan_missing(lake, [way], START + HOUR_MS)
    assert [each.since for each in still_to_send(lake)] == [way.began]
    small.commit(way.push(), at=START + 3 * HOUR_MS)
    lake.view.refresh()
    assert [each.since for each in still_to_send(lake)] == [None]
    assert (send(lake, Queues()), still_to_send(lake)) == (0, [])


def test_a_replay_that_begins_beside_another_leaves_its_run_to_it(lake: EventLake) -> None:
    rows = [(place, f"r{place}", "s", f"message {place}") for place in range(3 * replay.BATCH)]
    lake.write_named(run_name("000001"), lake.spark.createDataFrame(rows, PLAN), NOW)
    first, second, beside = Queues(), Queues(), list[replay.Sent]()

    def meanwhile(_: int) -> None:
        beside.append(_send(lake, second, QUICK, lambda _: None))

    assert _send(lake, first, QUICK, meanwhile) == replay.Sent(30, [])
    assert beside == [replay.Sent(0, ["000001"])] * 3
    assert (len(first.sent), second.sent) == (30, [])
    assert _send(lake, second, QUICK, lambda _: None) == replay.Sent(0, [])


def test_a_run_that_another_replay_finished_meanwhile_is_neither_sent_nor_reported_as_left(lake: EventLake) -> None:
    """The other knows that all has been delivered, which came once this one had looked: it finishes without sending."""
    small, way = SmallLake(lake.root), Way()
    plan_missing(lake, [way], START + HOUR_MS)
    stopped, queues = still_to_send(lake), Queues()
    small.commit(way.push(), at=START + 3 * HOUR_MS)
    lake.view.refresh()
    assert (send(lake, queues), still_to_send(lake)) == (0, [])
    sent = replay.send(lake, queues, "envelopes", stopped, per_second=QUICK, on_progress=print)  # type: ignore[arg-type]
    assert (sent, queues.sent) == (replay.Sent(0, []), [])


def _send(lake: EventLake, queues: Queues, per_second: float, report: Callable[[int], None]) -> replay.Sent:
    # It speaks as much of SQS as is needed.
    return replay.send(lake, queues, "envelopes", still_to_send(lake), per_second=per_second, on_progress=report)  # type: ignore[arg-type]


def plan_missing(lake: EventLake, ways: Sequence[Way], now: int) -> None:
    """Plan to send what was observed of these again, which the phone has not got."""
    SmallLake(lake.root).commit(*(way.observed() for way in ways))
    lost = [{"difference": "missing", "receipt": str(way.receipt), "subscription_id": str(PHONE)} for way in ways]
    differences = lake.spark.createDataFrame(lost, DIFFERENCE)
    replay.plan(lake, differences, Period(START, START + HOUR_MS), now, dry_run=False)


def still_to_send(lake: EventLake) -> list[replay.Unsent]:
    return [replay.still_to_send(lake, each, NOW) for each in replay.unfinished(lake.root, NOW)]


def _unplanned(lake: EventLake) -> EventLake:
    """The same lake without any plans."""

    class Unplanned(EventLake):
        def plans(self, since: int) -> DataFrame:
            return super().plans(since).where(F.lit(False))

    return Unplanned(lake.spark, lake.root)
