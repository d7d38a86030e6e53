"""`/v1/subscriptions/{id}/deliveries`: what became of a subscription's last envelopes and pushes, from the lake's index.

The lake is minutes late. An answer takes as many reads of S3 as there were files in the time that it looks back, up to
`MOST_FILES`: five hours of a deployment whose lake gets a file a minute. Nothing is older than the subscription.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache
from http import HTTPStatus
from itertools import batched
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import AwareDatetime, BaseModel

from api import quotas
from api.openapi import BEARER, WITHOUT_BODY, answers
from api.problems import ProblemKind
from api.quotas import Rate
from api.subscriptions import own
from api.worker import ApiRequest, current
from clarion import aws, deliveries
from clarion.decisions import NotificationDecision, PushDecision
from clarion.deliveries import KEPT_HOURS, DeliveryRecord
from clarion.storage import DELIVERIES_PREFIX
from clarion.tables import Subscription

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MOST_DELIVERIES = 50
MOST_FILES = 300
READERS = 32

router = APIGatewayHttpRouter()


class DeliveryShape(BaseModel):
    """`latency_ms` counts from when the envelope was observed; `attempt` from 1; both are null if no push was to be."""

    at: AwareDatetime
    network: str
    decision: NotificationDecision | PushDecision
    latency_ms: int | None
    attempt: int | None


class DeliveryList(BaseModel):
    """The last comes first. `since` is how far back the answer goes: not as far as usual where pushes are many."""

    since: AwareDatetime
    deliveries: list[DeliveryShape]


class IndexFile(NamedTuple):
    key: str
    size: int
    written_at: datetime


@router.get(
    "/v1/subscriptions/<subscription_id>/deliveries",
    summary="See what became of a subscription's last envelopes and pushes",
    operation_id="listDeliveries",
    tags=["subscriptions"],
    security=BEARER,
    responses=answers(
        HTTPStatus.OK, DeliveryList, [*WITHOUT_BODY, ProblemKind.UNAUTHENTICATED, ProblemKind.NO_SUBSCRIPTION]
    ),
)
def listing(subscription_id: UUID) -> DeliveryList:
    """Some minutes late, and of the last day. A push that was delivered is one that Apple, Google or a browser's service took."""
    request = current()
    row = own(request, subscription_id)
    now = request.worker.now()
    _check_rate(request, now)
    bucket, end = request.worker.settings.lake_bucket, datetime.fromtimestamp(now / 1000, UTC)
    return look_back(_s3(), bucket, row, end, until=request.until)


def look_back(s3: "S3Client", bucket: str, row: Subscription, now: datetime, *, until: float) -> DeliveryList:
    """Read the youngest files first, until there are enough deliveries or files, or it is `until` (monotonic seconds)."""
    began = datetime.fromtimestamp(row.began_at / 1000, UTC)
    since, read, found = max(now - timedelta(hours=KEPT_HOURS), began), 0, list[DeliveryRecord]()
    with ThreadPoolExecutor(READERS) as pool:
        for files in batched(_files(s3, bucket, since, now), READERS, strict=False):
            for of_file in pool.map(lambda file: _read(s3, bucket, file, UUID(row.subscription_id)), files):
                found += of_file
            read += len(files)
            if len(found) >= MOST_DELIVERIES or read >= MOST_FILES or time.monotonic() > until:
                # What is older was written before.
                since = files[-1].written_at
                break
    last = sorted(found, key=lambda one: one.at, reverse=True)[:MOST_DELIVERIES]
    shapes = [_shape(one, row.network) for one in last]
    if len(shapes) == MOST_DELIVERIES:
        since = max(since, shapes[-1].at)
    return DeliveryList(since=since, deliveries=shapes)


def _check_rate(request: ApiRequest, now: int) -> None:
    rate = Rate(request.worker.settings.looks_per_minute, 60)
    quotas.require(f"deliveries:{request.client.hex()}", rate, now, f"at most {rate.limit} a minute")


def _files(s3: "S3Client", bucket: str, since: datetime, now: datetime) -> Iterator[IndexFile]:
    """From the youngest hour, and within it from the last name, which Firehose gives by the time."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    while hour + timedelta(hours=1) > since:
        prefix = f"{DELIVERIES_PREFIX}day={hour:%Y-%m-%d}/hour={hour:%H}/"
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        of_hour = [
            IndexFile(one["Key"], one["Size"], one["LastModified"])
            for page in pages
            for one in page.get("Contents", [])
        ]
        yield from reversed(of_hour)
        hour -= timedelta(hours=1)


def _read(s3: "S3Client", bucket: str, file: IndexFile, subscription_id: UUID) -> Sequence[DeliveryRecord]:
    def read(begin: int, end: int) -> bytes:
        return s3.get_object(Bucket=bucket, Key=file.key, Range=f"bytes={begin}-{end - 1}")["Body"].read()

    return deliveries.find(file.size, subscription_id, MOST_DELIVERIES, read)


def _shape(one: DeliveryRecord, network: str) -> DeliveryShape:
    at = datetime.fromtimestamp(one.at / 1000, UTC)
    return DeliveryShape(at=at, network=network, decision=one.decision, latency_ms=one.latency_ms, attempt=one.attempt)


@cache
def _s3() -> "S3Client":
    return aws.s3(aws.new_session(), pool=READERS)
