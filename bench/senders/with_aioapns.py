"""aioapns, as its documentation uses it; runs on the bench's own environment."""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Iterator
from functools import partial
from uuid import uuid4

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol

from bench.senders.task import TOPIC, SendingTask, given, measure, send_all

CONCURRENT = 1000
BODY = {"aps": {"alert": {"title": "Polkadot App"}, "mutable-content": 1}, "statement": {"data": "00" * 250}}


def client_of(task: SendingTask) -> APNs:
    APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
    APNsProductionClientProtocol.APNS_PORT = task.port
    context = ssl.create_default_context(cafile=task.ca_file)
    context.set_alpn_protocols(["h2"])
    key = {"key": task.key, "key_id": "LOCALKEY00", "team_id": "LOCALTEAM0", "topic": TOPIC}
    return APNs(**key, ssl_context=context, max_connections=4)


async def work(client: APNs, waiting: Iterator[int], statuses: Counter[int]) -> None:
    for _ in waiting:
        push = NotificationRequest(
            device_token=uuid4().hex * 2,
            message=BODY,
            time_to_live=3600,
            priority=10,
            collapse_key=uuid4().hex * 2,
            push_type=PushType.ALERT,
        )
        answer = await client.send_notification(push)
        statuses[int(answer.status)] += 1


def main() -> None:
    logging.disable()
    task = given()

    async def start() -> APNs:
        return client_of(task)

    with asyncio.Runner() as runner:
        client = runner.run(start())
        measure(task.pushes, lambda count: runner.run(send_all(count, CONCURRENT, partial(work, client))))


if __name__ == "__main__":
    main()
