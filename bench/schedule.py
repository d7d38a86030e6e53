"""What a tick of the schedule costs with 50,000 due at once: `make bench-schedule`.

DynamoDB and SQS are a stand-in in a process of its own: its time doesn't count, but for what the tick waits for it.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

import boto3

from bench.figures import Figure, report
from bench.stand_ins import Answer, serving
from clarion import tables
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.networks import STATEMENTS
from clarion.wake_ups import PERIODS, due_slots
from schedule.handler import CONFIG
from schedule.periods import periods_in_use
from schedule.waking import THREADS, WakeUpReport, WakeUps
from tests.match.scene import credentials

DUE = 50_000
PAGE = 8_000
"""Entries of some 130 bytes in the megabyte that a query reads at a time."""
TURNS = 3


def figures(due: int = DUE, turns: int = TURNS) -> list[Figure]:
    os.environ |= credentials()
    with stand_in(due) as url:
        os.environ["AWS_ENDPOINT_URL"] = url
        tables.bind("")
        with ThreadPoolExecutor(THREADS) as executor:
            queues = {Channel.APNS: f"{url}/apns", Channel.FCM: f"{url}/fcm"}
            sender = WakeUps(sqs=boto3.client("sqs", config=CONFIG), held_queues=queues, executor=executor)
            cpu, passed = min(turn(sender, due) for _ in range(turns))
    return [
        Figure.alone("processor time of a wake-up", cpu / due * 1e6, "µs"),
        Figure.beside("send the wake-ups of a minute, beside the minute", passed, 60, "s"),
    ]


def turn(sender: WakeUps, due: int) -> tuple[float, float]:
    """Seconds of processor time, and of the clock."""
    minute = now_ms() // 60_000
    cpu, begun = time.process_time(), time.monotonic()
    report = sender.run(due_slots(periods_in_use(), minute - 1, minute), until=begun + 600)
    if report != WakeUpReport(sent=due):
        raise SystemExit(f"not all were sent: {report}")
    return time.process_time() - cpu, time.monotonic() - begun


@contextmanager
def stand_in(due: int) -> Iterator[str]:
    """Yields its address."""
    command = [sys.executable, "-m", "bench.schedule", "serve", str(due)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield "".join(islice(process.stdout or (), 1)).strip()
        finally:
            process.kill()


async def serve(due: int) -> None:
    """Until it is killed."""
    async with serving(partial(answer, due)) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


def answer(due: int, request: dict[str, Any]) -> Answer:
    if "Entries" in request:
        taken = [{"Id": entry["Id"], "MessageId": "m", "MD5OfMessageBody": "0" * 32} for entry in request["Entries"]]
        return "200 OK", {"Successful": taken}
    [slot] = [value["S"] for value in request["ExpressionAttributeValues"].values()]
    if slot == PERIODS:
        return "200 OK", {
            "Items": [{"slot": {"S": slot}, "subscription_id": {"S": "20"}}],
            "Count": 1,
            "ScannedCount": 1,
        }
    begin = int(UUID(request.get("ExclusiveStartKey", NOTHING)["subscription_id"]["S"])) + 1
    items = [item(slot, number) for number in range(begin, min(begin + PAGE, due + 1))]
    more = {"LastEvaluatedKey": items[-1]} if begin + PAGE <= due else {}
    return "200 OK", {"Items": items, "Count": len(items), "ScannedCount": len(items), **more}


NOTHING = {"subscription_id": {"S": str(UUID(int=0))}}


def item(slot: str, number: int) -> dict[str, dict[str, str]]:
    """Of an entry: as many on APNs as on FCM."""
    return {
        "slot": {"S": slot},
        "subscription_id": {"S": str(UUID(int=number))},
        "network": {"S": STATEMENTS},
        "channel": {"S": (Channel.APNS, Channel.FCM)[number % 2]},
        "client_id": {"B": "Y2xpZW50IGlkIG9mIHRoaXJ0eS10d28gYnl0ZXMuLi4="},
    }


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[2]))) if sys.argv[1:2] == ["serve"] else report(figures())
