"""What a relay keeps: messages by topic, each for its time to live."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from local.provider import Clock

LONGEST_TTL_S = 30 * 24 * 60 * 60
PAGE = 500
"""Messages that are fetched at once."""
_TOPIC_DIGITS = 64


@dataclass(frozen=True, slots=True)
class RelayedMessage:
    """`ttl` in seconds, `published_at` in UNIX milliseconds; the publisher is a client's did:key."""

    topic: str
    message: str
    tag: int
    ttl: int
    prompt: bool
    published_at: int
    publisher: str

    @classmethod
    def parsed(cls, params: Any, publisher: str, published_at: int) -> "RelayedMessage":
        """Of a request to publish; raises `ValueError`."""
        match params:
            case {"topic": str(topic), "message": str(message), "ttl": int(ttl), "tag": int(tag)}:
                if len(topic) != _TOPIC_DIGITS or not message:
                    raise ValueError("no topic, or no message")
                if not 0 < ttl <= LONGEST_TTL_S:
                    raise ValueError("TTL too long, or none")
                return cls(topic, message, tag, ttl, params.get("prompt") is True, published_at, publisher)
        raise ValueError("topic, message, ttl or tag is missing")

    @property
    def expires_at(self) -> int:
        """UNIX milliseconds."""
        return self.published_at + 1000 * self.ttl

    def as_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "message": self.message, "publishedAt": self.published_at, "tag": self.tag}


class Mailbox:
    """A message that is published again on the same topic takes the place of the one before."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._kept: defaultdict[str, dict[str, RelayedMessage]] = defaultdict(dict)
        self._fetched: defaultdict[str, set[RelayedMessage]] = defaultdict(set)

    def keep(self, message: RelayedMessage) -> None:
        self._kept[message.topic][message.message] = message

    def of(self, topic: str) -> list[RelayedMessage]:
        now = 1000 * self._now()
        return [message for message in self._kept[topic].values() if message.expires_at > now]

    def fetch(self, client: str, topics: Iterable[str]) -> tuple[list[RelayedMessage], bool]:
        """A page of what this client has not fetched yet, and whether there is more."""
        fetched = self._fetched[client]
        waiting = [message for topic in topics for message in self.of(topic) if message not in fetched]
        fetched.update(waiting[:PAGE])
        return waiting[:PAGE], len(waiting) > PAGE
