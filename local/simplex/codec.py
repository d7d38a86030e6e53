"""How SimpleX writes values: lengths before bytes, lists, big-endian numbers, and content padded to blocks.

| value | as it is written |
|---|---|
| bytes | `short`: one byte of length, then they; `large`: two |
| list | one byte of count, then the items |
| optional | `0`, or `1` and the value |
| time | eight bytes, seconds |
| block | two bytes of length, the content, then `#` to the end |
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence

_FILL = b"#"
_LONGEST_SHORT = 255


class WireFault(ValueError):  # noqa: N818 - it names what was received
    """Bytes that are not what the protocol has in their place."""


def short(value: bytes) -> bytes:
    if len(value) > _LONGEST_SHORT:
        raise WireFault(f"{len(value)} bytes are too many for a length of one byte")
    return bytes([len(value)]) + value


def large(value: bytes) -> bytes:
    return u16(len(value)) + value


def several(items: Sequence[bytes]) -> bytes:
    return bytes([len(items)]) + b"".join(items)


def u16(number: int) -> bytes:
    return struct.pack(">H", number)


def i64(number: int) -> bytes:
    return struct.pack(">q", number)


def padded(content: bytes, size: int) -> bytes:
    """`size` bytes; raises `WireFault` if it is longer."""
    if len(content) > size - 2:
        raise WireFault(f"{len(content)} bytes do not fit a block of {size}")
    return large(content).ljust(size, _FILL)


def unpadded(block: bytes) -> bytes:
    return WireReader(block).large()


def b64(value: bytes) -> str:
    return urlsafe_b64encode(value).decode()


def unb64(text: str) -> bytes:
    """With padding or without."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


class WireReader:
    """Reads values one after the other; each method raises `WireFault` if they end too soon."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self, count: int) -> bytes:
        if count > len(self._data):
            raise WireFault(f"expected {count} bytes, there are {len(self._data)}")
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2))

    def i64(self) -> int:
        return int.from_bytes(self.take(8), signed=True)

    def short(self) -> bytes:
        return self.take(self.byte())

    def large(self) -> bytes:
        return self.take(self.u16())

    def several[T](self, read: Callable[[], T]) -> list[T]:
        return [read() for _ in range(self.byte())]

    def expect(self, literal: bytes) -> None:
        if (found := self.take(len(literal))) != literal:
            raise WireFault(f"expected {literal!r}, not {found!r}")

    def rest(self) -> bytes:
        return self.take(len(self._data))

    def end(self) -> None:
        if self._data:
            raise WireFault(f"{len(self._data)} bytes too many")
