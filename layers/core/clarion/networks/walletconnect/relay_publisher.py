"""Publishes by the relay's HTTP, for whoever is no client of its WebSocket.

    published ────▶ the relay has it, and passes it on for as long as its TTL says
    mailbox full ─▶ nobody subscribes to its topic, and the relay keeps no more for it
    refused ──────▶ it will never be taken
    failed ───────▶ it may be taken later: tried again a few times here, and after that by the queue

What is published twice is the same message twice, which its receivers know by its hash.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from enum import StrEnum

from clarion.networks.walletconnect.relay import Publication, RelayAnswer, RelayClient, RelayFault, RelayRefusal, read
from clarion.providers.transport import Answer, Request, Result, Transport

ATTEMPTS = 4
PATIENCE_SECONDS = 8.0
"""After which no further attempt begins. An attempt takes at most what the transport's timeouts allow."""
_FIRST_PAUSE, _GROWTH = 0.1, 4
_LANE = "walletconnect relay"
_MALFORMED = {400, 413}
_PAYLOAD_CODE, _HANDLER_CODE = -32600, -32000
_PERMANENT_CODES = {_PAYLOAD_CODE, _HANDLER_CODE}
"""What is wrong with the message itself. Others are for want of authentication, of quota, or of health."""
_MAILBOX_FULL = "MailboxLimitExceeded"

log = logging.getLogger(__name__)


class PublishOutcome(StrEnum):
    PUBLISHED = "published"
    MAILBOX_FULL = "mailbox_full"
    """Not to be published again: who comes later asks for what was missed."""
    REFUSED = "refused"
    FAILED = "failed"


class RelayPublisher:
    """`transport` keeps its connections to the relay between calls."""

    def __init__(
        self, client: RelayClient, transport: Transport, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._client = client
        self._transport = transport
        self._sleep = sleep

    def publish(self, publications: Sequence[Publication]) -> list[PublishOutcome]:
        """All at once; the outcomes in the order of the publications."""
        outcomes = [PublishOutcome.FAILED] * len(publications)
        until = time.monotonic() + PATIENCE_SECONDS
        for attempt in range(ATTEMPTS):
            left = [at for at, outcome in enumerate(outcomes) if outcome is PublishOutcome.FAILED]
            if not left or time.monotonic() > until:
                break
            if attempt:
                self._sleep(_FIRST_PAUSE * _GROWTH ** (attempt - 1) * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            for at, outcome in zip(left, self._attempt([publications[at] for at in left]), strict=True):
                outcomes[at] = outcome
        return outcomes

    def _attempt(self, publications: Sequence[Publication]) -> list[PublishOutcome]:
        url = self._client.rpc_url(int(time.time()))
        headers = ["content-type: application/json"]
        requests = [Request(url, headers, publication.request(), _LANE) for publication in publications]
        outcomes = [outcome_of(result) for result in self._transport.send(requests)]
        for publication, (outcome, reason) in zip(publications, outcomes, strict=True):
            if reason:
                log.warning("relay", extra={"tag": publication.tag, "outcome": outcome.value, "reason": reason})
        return [outcome for outcome, _ in outcomes]


def outcome_of(result: Result) -> tuple[PublishOutcome, str | None]:
    """What the relay's answer means, and why; no reason if all is well."""
    if not isinstance(result, Answer):
        return PublishOutcome.FAILED, result.reason
    try:
        answer = read(result.body)
    except RelayFault:
        refused = result.status in _MALFORMED
        return PublishOutcome.REFUSED if refused else PublishOutcome.FAILED, f"status {result.status}"
    if isinstance(answer, RelayRefusal):
        return _of_refusal(answer), f"{answer.code} {answer.reason}"
    if isinstance(answer, RelayAnswer) and answer.result is True:
        return PublishOutcome.PUBLISHED, None
    return PublishOutcome.FAILED, "no answer to a publication"


def _of_refusal(refusal: RelayRefusal) -> PublishOutcome:
    if refusal.reason == _MAILBOX_FULL:
        return PublishOutcome.MAILBOX_FULL
    return PublishOutcome.REFUSED if refusal.code in _PERMANENT_CODES else PublishOutcome.FAILED
