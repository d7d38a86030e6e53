"""The encoding that both protocols share. Numbers are big-endian.

short string   length (1 byte) ++ bytes
long string    length (2 bytes) ++ bytes
list           count (1 byte) ++ items
"""

from collections.abc import Callable, Iterable

from clarion.networks import Malformed


class MalformedSimplex(Malformed):
    """Bytes that break a wire format of SimpleX."""


class Reader:
    """Takes values off the front of `raw`, one after another. Each method raises `MalformedSimplex`."""

    __slots__ = ("_at", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._raw):
            raise MalformedSimplex("it ends too early")
        taken = self._raw[self._at : end]
        self._at = end
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._raw) - self._at)

    def end(self) -> None:
        """Nothing may follow."""
        if self._at != len(self._raw):
            raise MalformedSimplex("bytes to spare")

    def expect(self, expected: bytes) -> None:
        if self.take(len(expected)) != expected:
            raise MalformedSimplex("another constant")

    def word16(self) -> int:
        return int.from_bytes(self.take(2))

    def word64(self) -> int:
        return int.from_bytes(self.take(8))

    def short(self) -> bytes:
        return self.take(self.take(1)[0])

    def long(self) -> bytes:
        return self.take(self.word16())

    def items[Item](self, item: Callable[[], Item]) -> tuple[Item, ...]:
        """`item` reads one of them, such as `reader.short`."""
        return tuple(item() for _ in range(self.take(1)[0]))


def word16(number: int) -> bytes:
    return number.to_bytes(2)


def word64(number: int) -> bytes:
    return number.to_bytes(8)


def short(content: bytes) -> bytes:
    """Raises `OverflowError` for more than 255 bytes."""
    return len(content).to_bytes(1) + content


def long(content: bytes) -> bytes:
    """Raises `OverflowError` for more than 65,535 bytes."""
    return word16(len(content)) + content


def items(encoded: Iterable[bytes]) -> bytes:
    """Of values that are encoded already. Raises `OverflowError` for more than 255 of them."""
    several = tuple(encoded)
    return len(several).to_bytes(1) + b"".join(several)
