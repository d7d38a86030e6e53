"""What match's invocations take of a processor: `make bench-batches` writes the figures that docs/scale.md goes by.

A dictionary answers in place of AWS, before a request is signed and sent; what botocore takes for that is timed apart,
with a stand-in for the connection alone, and added for each request. Only the operating system's part is left out.
"""

import os
import random
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from time import process_time
from typing import Any
from uuid import UUID

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from moto import mock_aws

from bench.figures import record
from bench.match import answer
from bench.scale import BATCH
from bench.tape import RawBody
from clarion.messages import MatchMessage
from clarion.tables import PushRecord
from match.settings import MatchSettings
from match.worker import MatchClients
from tests.match.dictionary import Dictionary
from tests.match.ledger import want
from tests.match.meter import meter
from tests.match.scene import PREFIX, InTurn, Scene, Sender, credentials, deploy

TURNS = 9
CALLS = 200


def main() -> None:
    os.environ |= credentials() | {"POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    # Outside the emulation, which would answer first.
    request_s = one_request(MatchClients.make(PREFIX))
    with mock_aws():
        settings = MatchSettings.from_environment(deploy())
        settings = settings.model_copy(update={"fan_out_page": MatchSettings.model_fields["fan_out_page"].default})
        clients = MatchClients.make(PREFIX)._replace(executor=InTurn())
        scene = Scene(settings, clients)
        single_s = invocation(scene, 1, request_s, partial(batch, scene, 1))
        batch_s = invocation(scene, BATCH, request_s, partial(batch, scene, BATCH))
        page_s = invocation(scene, settings.fan_out_page, request_s, partial(page, scene))
    record(
        "make bench-batches",
        match_single_cpu_s=(single_s, "one statement for one receiver"),
        match_batch_cpu_s=(batch_s, "ten statements of ten pairs"),
        page_cpu_s=(page_s, "250 receivers of one statement"),
    )
    print(f"match: {batch_s * 1000:.1f} ms for a batch of {BATCH}, {page_s * 1000:.0f} ms for a page of a fan-out")


def one_request(clients: MatchClients) -> float:
    """Seconds for what the dictionary spares a request: its endpoint, its signature, the answer's parsing."""
    row = PushRecord("s" * 36, bytes(32), receipt="r" * 36, claimed_at=1, ttl=1)
    item = row.serialize()

    def put() -> None:
        clients.dynamodb.put_item(TableName=PushRecord.Meta.table_name, Item=item, ReturnValues="ALL_OLD")

    events = clients.dynamodb.meta.events
    seconds = []
    for moment, hook in (("before-send.dynamodb", _answered), ("before-call.dynamodb", answer)):
        events.register_first(moment, hook)
        seconds.append(min(_seconds(put) for _ in range(CALLS)))
        events.unregister(moment, hook)
    whole, spared = seconds
    return whole - spared


def invocation(
    scene: Scene, receivers: int, request_s: float, messages: Callable[[Dictionary], Sequence[MatchMessage]]
) -> float:
    """Seconds that one takes, with all its requests; the best of some turns, as the machine may be busy."""
    taken = []
    for _ in range(TURNS):
        table = Dictionary()
        given = messages(table)
        with table.answering(scene.clients), meter.running() as bill, redirect_stdout(StringIO()):
            seconds = _seconds(partial(scene.take, *given))
            taken.append(seconds + request_s * bill.requests.total())
        if len(table.sent) < receivers:
            raise RuntimeError("not everybody got a push")
    return min(taken)


def batch(scene: Scene, size: int, table: Dictionary) -> list[MatchMessage]:
    senders = [replace(scene, sender=Sender()) for _ in range(size)]
    for number, sender in enumerate(senders):
        want(table, str(UUID(int=number, version=4)), sender.sender.key)
    return [message for sender in senders for message in sender.observe_new(1)]


def page(scene: Scene, table: Dictionary) -> list[MatchMessage]:
    """The first of a fan-out, which is as long as any other."""
    lot = random.Random(1)  # noqa: S311 - the same crowd each time
    for _ in range(2 * scene.settings.fan_out_page):
        want(table, str(UUID(int=lot.getrandbits(128), version=4)), scene.sender.key)
    return [*scene.observe_new(1)]


def _answered(**_: object) -> Any:
    """Stands for the connection, and DynamoDB behind it."""
    return AWSResponse("", 200, HTTPHeaders(), RawBody(b"{}"))


def _seconds(work: Callable[[], object]) -> float:
    """Of the processor's time."""
    started = process_time()
    work()
    return process_time() - started


if __name__ == "__main__":
    main()
