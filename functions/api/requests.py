"""What every function that serves clients asks of a request first: its way, its sender, its size, and the allowance."""

import time
from base64 import b64decode
from collections.abc import Mapping
from hmac import compare_digest
from typing import Any

from aws_lambda_powertools import Logger

from api import quotas
from api.problems import Problem, ProblemKind, contended
from api.quotas import Rate
from api.worker import ClientWorker
from clarion.faults import AWS_ERRORS, describe
from clarion.secrets import OriginSecret, Secret, SecretError
from clarion.tables import met_transaction

type Event = Mapping[str, Any]
"""A request, as API Gateway's payload 2.0."""

UNAVAILABLE = (*AWS_ERRORS, SecretError)
"""What AWS's troubles raise."""
ORIGIN_HEADER = "x-clarion-origin"
"""As `infra.edge` has CloudFront send it."""
REQUEST_SECONDS = 16
"""After so long a request begins nothing new. API Gateway gives it 29 s.

What is under way may take 7 s more, two attempts at a table and the back-off of its conflicts, and to emit events 4 s.
"""

logger = Logger(service="api")


def deadline(seconds: float | None = None) -> float:
    """By the monotonic clock; `seconds` is how long the client waits, if it says so."""
    return time.monotonic() + min(REQUEST_SECONDS if seconds is None else seconds, REQUEST_SECONDS)


def check_origin(event: Event, secret: Secret[OriginSecret] | None) -> None:
    """Refuse what came around CloudFront, where each address is limited; without a secret, any may pass."""
    if secret is None:
        return
    sent = event["headers"].get(ORIGIN_HEADER, "").encode()
    if not any(compare_digest(sent, accepted) for accepted in secret.get().accepted):
        raise Problem(ProblemKind.NO_ROUTE)


def source_address(event: Event, *, behind_cloudfront: bool) -> str:
    """The network address that a request came from.

    CloudFront adds its viewer's to those that the viewer may have made up, and API Gateway adds CloudFront's.
    https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/RequestAndResponseBehaviorCustomOrigin.html
    """
    last: str = event["requestContext"]["http"]["sourceIp"]
    if not behind_cloudfront:
        return last
    hops: list[str] = [hop.strip() for hop in event["headers"].get("x-forwarded-for", "").split(",")]
    if hops[-1] == last:
        hops.pop()
    return next(reversed(hops), "") or last


def caller(event: Event) -> bytes:
    """The client's id, as the authorizer has found it."""
    known = (event["requestContext"].get("authorizer") or {}).get("lambda") or {}
    if "unavailable" in known:
        raise Problem(ProblemKind.UNAVAILABLE, known["unavailable"], headers={"Retry-After": "2"})
    if "client_id" not in known:
        raise Problem(ProblemKind.UNAUTHENTICATED, known.get("refusal"), headers={"WWW-Authenticate": "Bearer"})
    return bytes.fromhex(known["client_id"])


def body_of(event: Event, limit: int) -> bytes:
    """The body as it was sent, of at most `limit` bytes."""
    body = event.get("body") or ""
    raw = b64decode(body) if event.get("isBase64Encoded") else body.encode()
    if len(raw) > limit:
        raise Problem(ProblemKind.TOO_LARGE, f"at most {limit} bytes")
    return raw


def within_allowance(client_id: bytes, worker: ClientWorker) -> None:
    """Windows this short bound how many requests of one client are in progress, without counting those that end."""
    limit = worker.settings.requests_per_ten_seconds
    quotas.require(f"requests:{client_id.hex()}", Rate(limit, 10), worker.now(), f"at most {limit} in ten seconds")


def not_now(error: Exception) -> Problem:
    """`error` is one of `UNAVAILABLE`. It is not the service's fault that a client's own requests meet."""
    if met_transaction(error):
        return contended()
    logger.error("AWS gives no usable answer", extra={"error": describe(error)})
    return Problem(ProblemKind.UNAVAILABLE, headers={"Retry-After": "2"})
