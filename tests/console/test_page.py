"""The live page over a deployment: what it reads of the account, and how often."""

import asyncio
import gzip
import json
import re
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, override

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.model import OperationModel

from clarion.decisions import EnvelopeDecision
from console import status
from console.faults import Trouble
from console.lake import LONGEST_LINE, File, Lake
from console.page import command, lake_tail
from console.page.app import HOST
from console.page.deployed import REMOTE, DeployedPage, Intervals
from console.page.items import RecentItems, Station
from console.page.lake_tail import LATEST, LakeTail
from console.page.server import serving
from tests.console.account import Account
from tests.console.test_status import measure
from tests.page.listening import PATIENCE_S, first_events
from tests.page.made_up import trail

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(account: Account) -> DeployedPage:
    return DeployedPage(account.here)


async def test_each_file_of_the_lake_is_read_once_and_its_items_are_shown(page: DeployedPage, account: Account) -> None:
    account.write_to_lake(*trail(1), *trail(2, decision=EnvelopeDecision.EXPIRED))
    account.write_to_lake(*trail(3), zipped=False)

    first = await page.read_items()
    assert first is not None
    assert sorted(item["marks"][-1]["word"] for item in first) == ["delivered", "delivered", "expired"]
    assert await page.read_items() is None

    account.write_to_lake(*trail(4))
    second = await page.read_items()
    assert second is not None
    assert len(second) == 1


async def test_of_more_files_than_can_be_read_at_once_some_are(
    page: DeployedPage, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_tail, "FILES_AT_ONCE", 3)
    for number in range(8):
        account.write_to_lake(*trail(number))
    found = await page.read_items()
    assert found is not None
    assert len(found) == 3
    assert await page.read_items() is None


def test_what_is_older_than_a_file_can_be_late_is_listed_no_more(account: Account) -> None:
    hour = datetime.now(UTC)
    folder = f"events/day={hour:%Y-%m-%d}/hour={hour:%H}/"
    tail = LakeTail(Lake(account.s3, account.here.lake), late=timedelta(0))
    read = []
    for key in ("stream-12-00", "stream-12-10", "stream-12-05", "stream-12-20"):
        account.s3.put_object(Bucket=account.here.lake, Key=f"{folder}{key}", Body=f"{key}\n".encode())
        read.append(tail.look().lines)
    assert read == [[b"stream-12-00\n"], [b"stream-12-10\n"], [], [b"stream-12-20\n"]]


class LakeInTrouble(Lake):
    """AWS refuses each file so often; unless it `refuses_new`, only those that it has refused before."""

    def __init__(self, account: Account, refusals: int, code: str = "SlowDown") -> None:
        super().__init__(account.s3, account.here.lake)
        self._code = code
        self._refusals = refusals
        self.refuses_new = True
        self._asked = Counter[str]()

    @override
    def lines(self, file: File) -> Iterator[bytes]:
        is_refused = self.refuses_new or file.key in self._asked
        self._asked[file.key] += 1
        if is_refused and self._asked[file.key] <= self._refusals:
            raise ClientError({"Error": {"Code": self._code, "Message": "refused"}}, "GetObject")
        return super().lines(file)


def test_a_file_that_aws_refuses_is_read_later(account: Account) -> None:
    account.write_to_lake(*trail(1))
    tail = LakeTail(LakeInTrouble(account, refusals=1), late=timedelta(0))
    refused, again = tail.look(), tail.look()
    assert refused.error is not None
    assert refused.lines == []
    assert again.error is None
    assert len(RecentItems().add(again.lines)) == 1
    assert tail.passed_over == 0
    assert tail.look().lines == []


def test_a_file_that_nobody_may_read_is_asked_for_until_somebody_may(account: Account) -> None:
    account.write_to_lake(*trail(1))
    tail = LakeTail(LakeInTrouble(account, refusals=10, code="AccessDenied"))
    errors = [tail.look().error for _ in range(10)]
    assert all(errors)
    assert len(RecentItems().add(tail.look().lines)) == 1
    assert tail.passed_over == 0


def test_a_file_that_aws_always_refuses_is_given_up_and_counted(account: Account) -> None:
    account.write_to_lake(*trail(1))
    tail = LakeTail(LakeInTrouble(account, refusals=1000))
    errors = [tail.look().error for _ in range(lake_tail.MOST_TRIES + 1)]
    assert [error is not None for error in errors] == [True] * lake_tail.MOST_TRIES + [False]
    assert tail.passed_over == 1


async def test_items_are_shown_though_aws_refuses_other_files(page: DeployedPage, account: Account) -> None:
    """And that it does is said as long as it does, whatever else comes."""
    account.write_to_lake(*trail(1))
    lake = LakeInTrouble(account, refusals=2)
    page.__dict__["_tail"] = LakeTail(lake)
    assert await page.read_items() is None
    account.write_to_lake(*trail(2))
    lake.refuses_new = False
    assert len(await page.read_items() or []) == 1
    with pytest.raises(ClientError):
        await page.read_gaps()
    assert len(await page.read_items() or []) == 1
    assert (await page.read_gaps())["passed_over"] == 0


@pytest.mark.parametrize(
    "damage",
    [b"no gzip", gzip.compress(b"{}\n" * 99)[:-12], b"\x1f\x8b", b""],
    ids=["no gzip", "cut", "two bytes", "empty"],
)
async def test_a_damaged_file_is_counted_and_the_others_are_shown(
    page: DeployedPage, account: Account, damage: bytes
) -> None:
    hour = datetime.now(UTC)
    key = f"events/day={hour:%Y-%m-%d}/hour={hour:%H}/damaged.gz"
    account.s3.put_object(Bucket=account.here.lake, Key=key, Body=damage)
    account.write_to_lake(*trail(1))
    assert len(await page.read_items() or []) == 1
    assert (await page.read_gaps())["passed_over"] == (1 if damage else 0)


async def test_an_odd_line_is_counted_and_the_others_are_shown(page: DeployedPage, account: Account) -> None:
    hour = datetime.now(UTC)
    key = f"events/day={hour:%Y-%m-%d}/hour={hour:%H}/odd"
    good = b"".join(event.to_line() for event in trail(1))
    account.s3.put_object(Bucket=account.here.lake, Key=key, Body=b'{"event":\n\xff\n' + good + b"[]\n")
    assert len(await page.read_items() or []) == 1
    assert await page.read_gaps() == {"passed_over": 0, "unreadable": 3}


def test_of_a_busy_lake_the_newest_is_read_as_far_as_it_fits_into_memory(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_tail, "BYTES_AT_ONCE", 100_000)
    hour = datetime.now(UTC)
    bomb = gzip.compress((b"x" * 999 + b"\n") * 20_000)
    for number in range(3):
        key = f"events/day={hour:%Y-%m-%d}/hour={hour:%H}/{number}.gz"
        account.s3.put_object(Bucket=account.here.lake, Key=key, Body=bomb)
    tail = LakeTail(Lake(account.s3, account.here.lake))
    found = tail.look().lines
    assert 50_000 < sum(map(len, found)) <= 100_000
    assert tail.passed_over == 3
    assert tail.look().lines == []


def test_a_line_that_never_ends_comes_in_pieces(account: Account) -> None:
    hour = datetime.now(UTC)
    key = f"events/day={hour:%Y-%m-%d}/hour={hour:%H}/endless.gz"
    account.s3.put_object(Bucket=account.here.lake, Key=key, Body=gzip.compress(b"x" * (3 * LONGEST_LINE)))
    found = LakeTail(Lake(account.s3, account.here.lake)).look().lines
    assert [len(line) for line in found] == [LONGEST_LINE] * 3


async def test_the_steps_of_an_item_are_kept_for_why(page: DeployedPage, account: Account) -> None:
    account.write_to_lake(*trail(1))
    found = await page.read_items()
    assert found is not None
    why = await page.why(found[0]["key"])
    assert why is not None
    assert why.model_dump()["traces"]
    assert await page.why("00" * 32) is None


async def test_alarms_come_with_their_runbooks(page: DeployedPage, account: Account) -> None:
    account.renew_lease("task-1", seconds_ago=2)
    account.raise_alarm("dead-letters", minutes=5)
    status = await page.read_status()
    [alarm] = status["alarms"]
    assert alarm["name"] == "dead-letters"
    assert alarm["runbook"]
    assert next(queue["name"] for queue in status["queues"]) == "envelopes"
    assert status["tasks"][0]["name"] == "task-1"


async def test_the_last_hour_is_drawn_by_the_metrics_of_each_minute(page: DeployedPage, account: Account) -> None:
    silent = await page.read_history()
    assert {value for values in silent["series"].values() for value in values} == {None}
    measure(account, "envelopes_received", "ingest", 60, 40, minutes_ago=1)
    measure(account, "latency", "dispatch", *[90] * 7, minutes_ago=1)

    history = await page.read_history()

    assert len(history["minutes"]) == 60
    assert [value for value in history["series"]["received"] if value is not None] == [100]
    assert [value for value in history["series"]["delivered"] if value is not None] == [7]
    assert [value for value in history["series"]["p99"] if value is not None] == [90]


async def test_the_minute_that_has_just_begun_is_not_drawn_as_a_whole_one(page: DeployedPage, account: Account) -> None:
    measure(account, "envelopes_received", "ingest", 60, minutes_ago=1)
    begun = datetime.now(UTC).replace(second=0, microsecond=0).timestamp()
    history = await page.read_history()
    # The minute may have changed since.
    assert history["minutes"][-1] in {begun - 60, begun}


async def test_a_day_of_the_page_costs_what_its_document_says(page: DeployedPage, account: Account) -> None:
    """By https://aws.amazon.com/cloudwatch/pricing/, S3's and SQS's in us-east-1; a look at the lake lists up to two hours."""
    asked = Counter[str]()

    def count(params: Mapping[str, Any], model: OperationModel, **_: Any) -> None:
        asked[model.service_model.service_name] += len(params.get("MetricDataQueries", "1"))

    clients = status.Clients.made()
    page.__dict__["_clients"] = clients
    for client in (clients.cloudwatch, clients.sqs, clients.lambda_):
        client.meta.events.register("provide-client-params", count)
    await page.read_status()
    await page.read_history()

    assert asked["lambda"] == 1
    looks, listings = 86_400 / REMOTE.status, 2 * 86_400 / REMOTE.lake
    dollars = looks * (asked["cloudwatch"] * 0.01 / 1000 + asked["sqs"] * 0.4 / 1e6) + listings * 0.005 / 1000
    said = re.search(r"costs some (\d+) cents a day", (ROOT / "docs" / "page.md").read_text())
    assert said
    assert 100 * dollars == pytest.approx(int(said[1]), rel=0.1)


async def test_while_nobody_looks_aws_is_asked_for_nothing(account: Account) -> None:
    """Before the first viewer there is not even a client; after the last one none of them asks any more."""
    quick = Intervals(lake=0.01, status=0.01, late=LATEST)
    page, asked = DeployedPage(account.here, quick), Counter[str]()
    async with serving(page.backend) as address:
        await asyncio.sleep(20 * quick.lake)
        assert not {"_clients", "_tail"} & page.__dict__.keys()

        clients = status.Clients.made()
        s3 = boto3.client("s3")
        page.__dict__.update(_clients=clients, _tail=LakeTail(Lake(s3, account.here.lake)))
        for client in (clients.cloudwatch, clients.sqs, clients.lambda_, s3):
            client.meta.events.register("before-send", lambda **_: asked.update(["request"]))
        await first_events(address, {"status"})
        assert asked["request"] > 0

        async with asyncio.timeout(PATIENCE_S):
            before = -1
            while asked["request"] != before:
                before = asked["request"]
                await asyncio.sleep(50 * quick.lake)


def test_each_queue_that_an_item_passes_stands_at_a_station(page: DeployedPage) -> None:
    queues = page.backend.about["queues"]
    assert set(queues) < set(Station)
    aside = {queue.name for queue in page.here.queues} - {name for some in queues.values() for name in some}
    assert {name for name in aside if not name.endswith("-commands")} <= {"cleanup", "deliveries", "late-events"}


async def test_a_port_that_another_program_has_is_named(account: Account) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Trouble, match=f"port {port} cannot be had: Address already in use"):
            await command.page(account.here, port, as_json=True)


async def test_the_command_prints_an_address_at_which_items_and_status_are_shown(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    account.write_to_lake(*trail(1))
    serving = asyncio.create_task(command.page(account.here, 0, as_json=True))
    while not (printed := capsys.readouterr().out):
        await asyncio.sleep(0.01)

    events = await first_events(json.loads(printed)["address"], {"items", "status"})
    serving.cancel()
    await asyncio.wait([serving])

    assert events["about"]["title"] == "clarion prod"
    assert events["items"][0]["marks"][-1]["word"] == "delivered"
    assert events["status"]["troubles"] == ["no ingest task is at work"]


def test_a_deployments_page_has_no_actions(page: DeployedPage) -> None:
    assert page.backend.actions == {}
    assert page.backend.about["local"] is False
