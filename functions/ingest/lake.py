"""The lake: what was forwarded, as lines that share a record and a call."""

from collections.abc import Sequence

from clarion.events import EventStream, EnvelopeObserved, calls
from ingest.letter import Letter


class Lake:
    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    def tell(self, batch: Sequence[Letter]) -> list[Letter]:
        """Return the letters whose lines Firehose did not take. Raise what the SDK raises; then none may count as taken."""
        letters = {_line(letter): letter for letter in batch}
        return [letters[line] for packs in calls(letters) for line in self._stream.put(packs)]


def _line(letter: Letter) -> bytes:
    return EnvelopeObserved.of(letter.message, letter.observed_at).to_line()
