import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clarion.channels import CHANNELS
from clarion.messages import EnvelopeMessage, PushMessage, RemainderMessage, read_match_message
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
QUEUES = {replay.ENVELOPES: "envelopes", **{str(channel): str(channel) for channel in CHANNELS}}
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
    return _send(lake, queues, QUICK, lambda _: None)


@pytest.mark.usefixtures("adaptive")
def test_a_replay_sends_each_loss_once_even_if_it_is_stopped_and_run_again(
    day: EventLake, plan: Plan, differences: DataFrame, lost: set[tuple[str, str]], secret: DataFrame
) -> None:
    now = plan.start + 24 * 3_600_000
    dry = replay.plan(day, differences, plan.period, now, dry_run=True)
    assert send(day, Queues()) == 0
    planned = replay.plan(day, differences, plan.period, now, dry_run=False)
    assert planned == dry
    assert planned.notifications == len(lost)
    stopped = Queues(refuse_from=1)
    with pytest.raises(replay.ReplayStopped):
        send(day, stopped)
    rest = Queues()
    send(day, rest)
    sent = Counter(stopped.sent + rest.sent)
    assert max(sent.values()) == 1 or sum(sent.values()) - len(sent) <= replay.BATCH
    assert len(sent) == planned.messages
    again = replay.plan(day, differences, plan.period, now + 1_000, dry_run=False)
    assert (again.notifications, again.known) == (0, len(lost))
    assert send(day, Queues()) == 0
    to_match = [read_match_message(body) for url, body in sent if url == "envelopes"]
    whole = [one for one in to_match if isinstance(one, EnvelopeMessage)]
    envelopes = {str(one.receipt) for one in whole}
    assert {one.network for one in whole} == {*FOLLOWED}
    pushes = [(url, PushMessage.model_validate_json(body)) for url, body in sent if url != "envelopes"]
    assert all(url == push.channel for url, push in pushes)
    assert {push.network for _, push in pushes} == {*FOLLOWED}
    pushed = {(str(push.receipt), str(push.subscription_id)) for _, push in pushes}
    asked = {(str(one.receipt), *one.subscription_ids) for one in to_match if isinstance(one, RemainderMessage)}
    assert not pushed & asked
    assert pushed | asked == {who for who in lost if who[0] not in envelopes}
    assert envelopes <= {receipt for receipt, _ in lost}
    known = {row[0] for row in secret.collect()}
    assert {subscription in known for _, subscription in asked} == {True}
    assert {subscription in known for _, subscription in pushed} == {False}


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
    """Of an envelope of which nothing was queued, one message is for all of its rows."""
    small, way = SmallLake(lake.root), Way()
    small.commit(subscribed(), subscribed(TABLET, OTHER))
    small.commit(way.observed())
    lost = [
        {"difference": "missing", "receipt": str(way.receipt), "subscription_id": str(to)} for to in (PHONE, TABLET)
    ]
    differences = lake.spark.createDataFrame(lost, DIFFERENCE)
    period = Period(START, START + HOUR_MS)
    planned = replay.plan(lake, differences, period, START + HOUR_MS, dry_run=False)
    assert (planned.notifications, planned.messages) == (2, 1)
    assert erase(lake.root, CLIENT, dry_run=False, report=lambda _: None).removed[f"replays/run={planned.run}"] == 1
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
    assert late.notifications + late.expired == len(lost)
    assert late.expired > late.notifications


def test_a_replay_keeps_to_its_rate_and_a_second_run_sends_nothing(lake: EventLake) -> None:
    rows = [(place, f"r{place}", "s", "fcm", f"message {place}") for place in range(3 * replay.BATCH)]
    lake.write_named(run_name("000001"), lake.spark.createDataFrame(rows, PLAN), NOW)
    queues, reported = Queues(), list[int]()
    begun = time.monotonic()
    sent = _send(lake, queues, 10 * replay.BATCH, reported.append)
    assert (sent, reported) == (30, [10, 20, 30])
    assert queues.sent == [("fcm", f"message {place}") for place in range(30)]
    assert all(at - begun >= 0.1 * number for number, at in enumerate(queues.called_at))
    assert send(lake, queues) == 0


def _send(lake: EventLake, queues: Queues, per_second: float, report: Callable[[int], None]) -> int:
    # It speaks as much of SQS as is needed.
    return replay.send(lake, queues, QUEUES, now=NOW, per_second=per_second, report=report)  # type: ignore[arg-type]


def _unplanned(lake: EventLake) -> EventLake:
    """The same lake without any plans."""

    class Unplanned(EventLake):
        def plans(self, since: int) -> DataFrame:
            return super().plans(since).where(F.lit(False))

    return Unplanned(lake.spark, lake.root)
