"""What both of SimpleX's protocols share on the wire: by the facts alone, nothing of the product is used here."""


def short(content: bytes) -> bytes:
    return len(content).to_bytes(1) + content


def long(content: bytes) -> bytes:
    return len(content).to_bytes(2) + content


def padded(content: bytes, size: int) -> bytes:
    """A block."""
    return long(content).ljust(size, b"#")


def batch(size: int, *transmissions: bytes) -> bytes:
    """A block."""
    return padded(bytes([len(transmissions)]) + b"".join(map(long, transmissions)), size)


def transmissions_of(block: bytes) -> list[bytes]:
    """Of a batch, which has nothing else in it."""
    content = Cursor(Cursor(block).long())
    found = [content.long() for _ in range(content.take(1)[0])]
    assert not content.rest
    return found


class Cursor:
    """Takes values off the front of what is left."""

    def __init__(self, raw: bytes) -> None:
        self.rest = raw

    def take(self, count: int) -> bytes:
        taken, self.rest = self.rest[:count], self.rest[count:]
        assert len(taken) == count
        return taken

    def short(self) -> bytes:
        return self.take(self.take(1)[0])

    def long(self) -> bytes:
        return self.take(int.from_bytes(self.take(2)))
