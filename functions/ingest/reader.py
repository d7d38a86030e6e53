"""Reads envelopes as their networks do. A bug in one network's code costs the envelopes that meet it, and nothing else.

Whoever shows envelopes may cause it as often as they like, so the log gets one line a minute for each network.
"""

import logging
import time

from clarion.decisions import EnvelopeDecision
from clarion.metrics import Metric, decided
from clarion.networks import Envelope, Malformed, network
from ingest.counts import Counts
from ingest.faults import traces

_LOG_SECONDS = 60.0

log = logging.getLogger(__name__)


class EnvelopeReader:
    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._log_next_at: dict[str, float] = {}
        """By network, as `time.monotonic`."""

    def decode(self, name: str, raw: bytes) -> Envelope | None:
        """None after an internal error, which is counted and is no fault of the source. Raise `Malformed`."""
        try:
            return network(name).decode(raw)
        except Malformed:
            raise
        except Exception as error:  # noqa: BLE001 - a bug in any network's code
            self._record(name, error)
            self._counts[decided(EnvelopeDecision.MALFORMED)] += 1
            return None

    def verify(self, envelope: Envelope) -> EnvelopeDecision | None:
        """As `Network.verify`; `MALFORMED` after an internal error, which is counted."""
        try:
            return network(envelope.network).verify(envelope)
        except Exception as error:  # noqa: BLE001 - as above
            self._record(envelope.network, error)
            return EnvelopeDecision.MALFORMED

    def _record(self, name: str, error: Exception) -> None:
        self._counts[Metric.INTERNAL_ERRORS] += 1
        now = time.monotonic()
        if now >= self._log_next_at.get(name, now):
            self._log_next_at[name] = now + _LOG_SECONDS
            log.error("internal error", extra={"network": name, "errors": traces(error)})
