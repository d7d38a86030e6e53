"""httpx over HTTP/2."""

import asyncio
import ssl
from collections import Counter
from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import httpx

from bench.senders.task import TOPIC, given, measure, send_all

CONCURRENT = 100
"""httpx slows down with more."""
BODY = {"aps": {"alert": {"title": "Polkadot App"}, "mutable-content": 1}, "statement": {"data": "00" * 250}}


def headers() -> dict[str, str]:
    return {
        "authorization": f"bearer {'x' * 180}",
        "apns-topic": TOPIC,
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-expiration": "1800003600",
        "apns-id": str(uuid4()),
        "apns-collapse-id": uuid4().hex * 2,
    }


async def work(client: httpx.AsyncClient, waiting: Iterator[int], statuses: Counter[int]) -> None:
    for _ in waiting:
        answer = await client.post(f"/3/device/{uuid4().hex}", headers=headers(), json=BODY)
        statuses[answer.status_code] += 1


def main() -> None:
    task = given()
    context = ssl.create_default_context(cafile=task.ca_file)
    client = httpx.AsyncClient(base_url=task.url, http2=True, http1=False, verify=context, trust_env=False, timeout=60)

    with asyncio.Runner() as runner:
        measure(task.pushes, lambda count: runner.run(send_all(count, CONCURRENT, partial(work, client))))


if __name__ == "__main__":
    main()
