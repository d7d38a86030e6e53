"""Blocks: both protocols send nothing else, so that their sizes say nothing of what is in them.

    block     content's length (2 bytes) ++ content ++ "#" …
    content   count (1 byte) ++ for each transmission: length (2 bytes) ++ transmission       a batch
              transmission                                                                    version 1 of NTF

What fills a block up may be anything. Of a batch's block, 16 bytes are left for encryption by later versions.
"""

from collections.abc import Iterable, Iterator, Sequence

from clarion.networks.simplex.encoding import MalformedSimplex, Reader, items, long

NTF_BLOCK_BYTES = 512
SMP_BLOCK_BYTES = 16_384
_MOST = 255
"""Transmissions in a batch, whose count has one byte."""
_LENGTH_BYTES, _COUNT_BYTES, _RESERVED_BYTES = 2, 1, 16


def pad(content: bytes, size: int) -> bytes:
    """Raises `ValueError` if it doesn't fit."""
    if len(content) + _LENGTH_BYTES > size:
        raise ValueError("too long for its block")
    return long(content).ljust(size, b"#")


def unpad(block: bytes) -> bytes:
    """Raises `MalformedSimplex`."""
    return Reader(block).long()


def batch_blocks(transmissions: Iterable[bytes], size: int) -> Iterator[bytes]:
    """As few blocks as hold them in this order. Raises `ValueError` for one that no block holds."""
    room = size - _LENGTH_BYTES - _COUNT_BYTES - _RESERVED_BYTES
    batch: list[bytes] = []
    used = 0
    for transmission in map(long, transmissions):
        if len(transmission) > room:
            raise ValueError("too long for a block")
        if used + len(transmission) > room or len(batch) == _MOST:
            yield pad(items(batch), size)
            batch, used = [], 0
        batch.append(transmission)
        used += len(transmission)
    if batch:
        yield pad(items(batch), size)


def batched(block: bytes) -> Sequence[bytes]:
    """The transmissions in a block, of which there is at least one. Raises `MalformedSimplex`."""
    content = Reader(unpad(block))
    transmissions = content.items(content.long)
    content.end()
    if not transmissions:
        raise MalformedSimplex("an empty batch")
    return transmissions
