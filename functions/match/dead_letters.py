"""What no further attempt will help goes to the dead-letter queue at once, and says why.

SQS takes a message there by itself after its last receive, but without a reason. It still does so with what could not
be buried here: that is only left to come again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from match.outbox import Letter, Outbox


class DeadLetter(NamedTuple):
    message_id: str
    body: str
    reason: str


class DeadLetters:
    def __init__(self, outbox: Outbox, queue_url: str | None) -> None:
        self._outbox = outbox
        self._queue_url = queue_url

    def bury(self, dead: Iterable[DeadLetter]) -> set[str]:
        """The ids of the messages that are in the dead-letter queue now."""
        if not self._queue_url:
            return set()
        letters = {one.message_id: Letter(self._queue_url, one.body, reason=one.reason) for one in dead}
        refused = self._outbox.post(letters.values())
        return {message_id for message_id, letter in letters.items() if letter not in refused}
