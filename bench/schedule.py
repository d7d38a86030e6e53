"""What a tick of the schedule costs with 50,000 due at once, and how late they are woken: `make bench-schedule`.

DynamoDB, SQS and Firehose are a stand-in in a process of its own, and so is APNs: their time doesn't count, but for what
is waited for. EventBridge's own delay is not in it.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.request import Request, urlopen

import boto3

from bench import dispatch as push_bench
from bench.figures import Figure, report
from bench.senders.task import TOPIC
from bench.wake_ups import stand_in
from clarion import aws, tables
from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.wake_ups import due_slots
from dispatch import handler as dispatch
from infra.environments import PROD
from local import keys, tls
from schedule.periods import periods_in_use
from schedule.waking import THREADS, WakeUpReport, WakeUps
from tests.match.scene import credentials, received

if TYPE_CHECKING:
    from threading import Event

    from aws_lambda_powertools.utilities.typing import LambdaContext

DUE = 50_000
TURNS = 3
WORKERS = 2
"""Of dispatch: production has ten, each with less of a processor."""
PROVIDER = push_bench.stand_in(50, 0)


class MeasuredTick(NamedTuple):
    """Seconds of processor time and of the clock."""

    cpu: float
    passed: float


def figures(due: int = DUE, turns: int = TURNS) -> list[Figure]:
    os.environ |= credentials()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys.generate(folder)
        best = min(sent_alone(due, turns, folder))
        late = lateness(due, folder)
    return [
        Figure.alone("processor time of a wake-up", best.cpu / due * 1e6, "µs"),
        Figure.beside("send the wake-ups of a minute, beside the minute", best.passed, 60, "s"),
        Figure.beside("from the schedule's call to the provider, 99th percentile, beside a minute", late, 60, "s"),
    ]


def sent_alone(due: int, turns: int, folder: Path) -> list[MeasuredTick]:
    with deployed(due, folder) as wake_ups:
        return [turn(wake_ups, due) for _ in range(turns)]


def lateness(due: int, folder: Path) -> float:
    """The 99th percentile of seconds, by the events of dispatch, from when the schedule is called."""
    context = get_context("spawn")
    with push_bench.provider(PROVIDER, folder) as port, deployed(due, folder) as wake_ups, context.Manager() as manager:
        os.environ |= settings_of_dispatch(folder, port)
        sent = manager.Event()
        with ProcessPoolExecutor(WORKERS, context) as workers:
            done = [workers.submit(dispatch_until, sent) for _ in range(WORKERS)]
            called_after = now_ms() % 60_000
            try:
                turn(wake_ups, due)
            finally:
                sent.set()
        for each in done:
            each.result()
        latencies = delivered()
    if len(latencies) != due:
        raise SystemExit(f"{len(latencies)} of {due} were delivered")
    return (quantiles(latencies, n=100)[-1] - called_after) / 1000


@contextmanager
def deployed(due: int, folder: Path) -> Iterator[WakeUps]:
    with stand_in(due, folder) as url, ThreadPoolExecutor(THREADS) as executor:
        os.environ["AWS_ENDPOINT_URL"] = url
        sqs = aws.sqs(tables.bind("").session, pool=THREADS)
        yield WakeUps(sqs=sqs, held_queues={Channel.APNS: f"{url}/apns-held"}, executor=executor)


def turn(wake_ups: WakeUps, due: int) -> MeasuredTick:
    minute = now_ms() // 60_000
    cpu, begun = time.process_time(), time.monotonic()
    report = wake_ups.run(due_slots(periods_in_use(), minute - 1, minute), until=begun + 600)
    if report != WakeUpReport(sent=due):
        raise SystemExit(f"not all were sent: {report}")
    return MeasuredTick(time.process_time() - cpu, time.monotonic() - begun)


def settings_of_dispatch(folder: Path, port: str) -> Mapping[str, str]:
    url = os.environ["AWS_ENDPOINT_URL"]
    settings = {
        "stage": PROD.stage,
        "table_prefix": "",
        "events_stream": "events",
        "late_events_queue_url": f"{url}/late-events",
        "queue_url": f"{url}/apns",
        "channel": Channel.APNS,
        "cleanup_queue_url": f"{url}/cleanup",
        "provider_secret_id": "apns",
        "bundle_id": TOPIC,
        "apns_url": f"https://127.0.0.1:{port}",
        "ca_file": str(tls.Localhost.within(folder).ca_file),
    }
    return {f"CLARION_{name.upper()}": value for name, value in settings.items()}


IN_TIME = cast(
    "LambdaContext", SimpleNamespace(get_remaining_time_in_millis=lambda: PROD.dispatch.size.timeout_s * 1000)
)


def dispatch_until(sent: "Event") -> None:
    """Work as one Lambda does, until all are sent and none is left."""
    sqs, url = boto3.client("sqs"), f"{os.environ['AWS_ENDPOINT_URL']}/apns-held"
    most = PROD.dispatch.of_held.batch
    while True:
        over = sent.is_set()
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=most).get("Messages", [])
        if messages:
            records = [received(one["MessageId"], one["Body"]) for one in messages]
            with redirect_stdout(StringIO()):
                dispatch.handler({"Records": records}, IN_TIME)
        elif over:
            return
        else:
            time.sleep(0.01)


def delivered() -> list[int]:
    """The latencies of all pushes."""
    request = Request(os.environ["AWS_ENDPOINT_URL"], json.dumps({"latencies": "all"}).encode())  # noqa: S310 - as below
    with urlopen(request) as answer:  # noqa: S310 - the stand-in's address is no file's
        found: list[int] = json.load(answer)["latencies"]
    return found


if __name__ == "__main__":
    report(figures())
