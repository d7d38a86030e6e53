"""Rules: a key is a topic, a condition holds the subscriber's HMAC keys for it and whether its pushes are silent.

A condition is opaque to everybody else, and secret: whoever has its keys can tell which messages are the subscriber's.

    silent (1 byte: 0 or 1), then for each period: period (4 bytes, big-endian) ++ size of the key (1) ++ key (42)

A shorter key is followed by zeros. A condition that says nothing is empty.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from clarion.networks import Rule
from clarion.networks.xmtp.sender_hmac import KEY_SIZE_V2, KEY_SIZE_V3
from clarion.networks.xmtp.topics import MAX_TOPIC_SIZE

NUMBER = b"\x02"
MAX_KEYS = 3
"""The periods before, at and after the time of writing: what clients hand over, and all that a decision can need."""

_KEY_SIZES = frozenset({KEY_SIZE_V2, KEY_SIZE_V3})
_KEY = struct.Struct(">I43p")
_PERIODS = range(1 << 32)
_SILENT = b"\1"
_FLAGS = (b"", b"\0", _SILENT)


def key_of(topic: str) -> bytes:
    """The network's number and the topic in UTF-8."""
    return NUMBER + topic.encode()


def keys_of(topic: str) -> list[bytes]:
    """None for a topic that is too long for any rule: no limit of the nodes' is known, so that is nobody's fault."""
    key = key_of(topic)
    return [key] if len(key) <= len(NUMBER) + MAX_TOPIC_SIZE else []


def topic_of(key: bytes) -> str:
    """Undo `key_of`."""
    return key[len(NUMBER) :].decode()


@dataclass(frozen=True, slots=True)
class TopicCondition:
    """What a subscriber said of one topic. `hmac_keys` go by period: at most three, each of the size of a scheme."""

    hmac_keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    silent: bool = False

    def __post_init__(self) -> None:
        if len(self.hmac_keys) > MAX_KEYS:
            raise ValueError(f"a condition has at most {MAX_KEYS} keys, not {len(self.hmac_keys)}")
        # Match makes one of these for each subscriber: a loop in Python would take longer than an HMAC.
        known = _KEY_SIZES.issuperset(map(len, self.hmac_keys.values()))
        if not known or not all(map(_PERIODS.__contains__, self.hmac_keys)):
            raise ValueError("a period out of range, or a key of no scheme's size")

    def renewed(self, named: Mapping[int, bytes], *, silent: bool, period: int) -> "TopicCondition":
        """As it is once its client has subscribed again in `period`: the keys it names replace those of their periods.

        A key that no scheme can use, an empty one for instance, leaves its period without one.
        """
        keys = {**self.hmac_keys, **named}
        usable = {number: key for number, key in keys.items() if len(key) in _KEY_SIZES}
        return TopicCondition(_near(usable, period), silent)

    def pruned(self, period: int) -> "TopicCondition":
        """Without keys that no message of `period` can need: one serves in its own period and in the next."""
        return TopicCondition(_near(self.hmac_keys, period), self.silent)


NOTHING = TopicCondition()


def pack(condition: TopicCondition) -> bytes:
    keys = sorted(condition.hmac_keys.items())
    if not keys and not condition.silent:
        return b""
    return b"".join([bytes([condition.silent]), *(_KEY.pack(*one) for one in keys)])


def unpack(packed: bytes) -> TopicCondition:
    """Raises `ValueError`, and nothing else, for what is no condition."""
    if packed[:1] not in _FLAGS:
        raise ValueError("no condition on a topic")
    try:
        keys = dict(_KEY.iter_unpack(packed[1:]))
    except struct.error as error:
        raise ValueError("the keys of a condition are truncated") from error
    return TopicCondition(keys, silent=packed[:1] == _SILENT)


def read(condition: bytes) -> TopicCondition:
    """As `unpack`; a condition that can't be read counts as one that says nothing, and so alerts to everything."""
    try:
        return unpack(condition) if condition else NOTHING
    except ValueError:
        return NOTHING


def newest_stored_period(conditions: Iterable[bytes]) -> int | None:
    """Of the keys that they hold; None without keys."""
    return max((period for one in conditions for period in read(one).hmac_keys), default=None)


def describe(rule: Rule) -> dict[str, str]:
    """Without the keys; of which periods they are is no secret."""
    condition = read(rule.condition)
    described = {"topic": topic_of(rule.key)}
    if condition.hmac_keys:
        described["key_periods"] = ", ".join(map(str, sorted(condition.hmac_keys)))
    return described | ({"is_silent": "true"} if condition.silent else {})


def _near(keys: Mapping[int, bytes], period: int) -> dict[int, bytes]:
    return {number: key for number, key in keys.items() if abs(number - period) <= 1}
