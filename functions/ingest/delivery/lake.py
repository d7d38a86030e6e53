"""The lake: what was forwarded, as lines that share a record and a call."""

from collections.abc import Sequence

from clarion.events import EnvelopeObserved, EventStream, calls
from ingest.delivery.outgoing import Outgoing


class LakeStream:
    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    def put(self, batch: Sequence[Outgoing]) -> list[Outgoing]:
        """Return those whose lines Firehose did not take. Raise what the SDK raises; then none may count as taken."""
        by_line = {_line(outgoing): outgoing for outgoing in batch}
        return [by_line[line] for packs in calls(by_line) for line in self._stream.put(packs)]


def _line(outgoing: Outgoing) -> bytes:
    return EnvelopeObserved.of(outgoing.message, outgoing.observed_at).to_line()
