"""What is believed of one source's replays.

    owed ──ends, and is believable──▶ complete ──the connection is lost──▶ owed

A node that lost its store replays next to nothing until its peers have sent it everything again, however often it is
asked meanwhile. So a replay of less than half of what is expected is believed only after some time.
"""

import time

_RESYNC_SECONDS = 600.0
"""For how long a node that replays too little is taken to be getting back from its peers what it has lost."""


class Replays:
    """Times are those of `time.monotonic`."""

    def __init__(self, expected: int) -> None:
        """`expected`: how many envelopes a complete replay should show, as far as we know."""
        self._expected = expected
        self._small_since: float | None = None
        self._owed_since: float | None = time.monotonic()
        self.any_ended = False
        self.complete_since = float("-inf")
        """When the subscription began whose replay was the last to be complete, and believed."""

    @property
    def owed(self) -> bool:
        return self._owed_since is not None

    def absent(self, seconds: float) -> bool:
        """Whether a complete replay has been owed for so long that it isn't waited for."""
        return self._owed_since is not None and time.monotonic() - self._owed_since >= seconds

    def ended(self, count: int, *, subscribed_at: float, announced: bool) -> None:
        """One has ended, after so many envelopes. It is complete only if the source itself `announced` the end."""
        self.any_ended = True
        if not announced or (count * 2 < self._expected and not self._small_for_long()):
            return
        self.complete_since = subscribed_at
        self._owed_since = self._small_since = None
        self._expected = count

    def lost(self) -> None:
        self._owed_since = self._owed_since or time.monotonic()

    def _small_for_long(self) -> bool:
        now = time.monotonic()
        self._small_since = self._small_since or now
        return now - self._small_since > _RESYNC_SECONDS
