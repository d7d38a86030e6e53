import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES, SMP_BLOCK_BYTES, batch_blocks, batched, pad, unpad
from clarion.networks.simplex.encoding import MalformedSimplex

SIZES = st.sampled_from([NTF_BLOCK_BYTES, SMP_BLOCK_BYTES])
FITTING = 512 - 2 - 1 - 16 - 2
"""The longest transmission of NTF: a block without its length, its count, what is reserved, and its own length."""


def test_content_is_padded_with_number_signs() -> None:
    assert pad(b"abc", 8) == b"\0\3abc###"
    assert pad(b"abcdef", 8) == b"\0\6abcdef"


def test_what_is_longer_is_not_padded() -> None:
    with pytest.raises(ValueError, match="too long for its block"):
        pad(b"abcdefg", 8)


def test_only_the_length_counts_when_it_is_read() -> None:
    assert unpad(b"\0\3abc\0?") == b"abc"


@pytest.mark.parametrize("block", [b"", b"\0", b"\0\4abc"])
def test_a_block_that_is_shorter_than_it_says_is_malformed(block: bytes) -> None:
    with pytest.raises(MalformedSimplex):
        unpad(block)


def test_a_batch_has_a_count_and_lengths() -> None:
    (block,) = batch_blocks([b"ab", b"c"], NTF_BLOCK_BYTES)
    assert block == bytes.fromhex("0008 02 0002 6162 0001 63") + b"#" * 502


@given(transmissions=st.lists(st.binary(max_size=FITTING), max_size=40), size=SIZES)
def test_batches_hold_all_in_their_order(transmissions: list[bytes], size: int) -> None:
    blocks = list(batch_blocks(transmissions, size))
    assert [one for block in blocks for one in batched(block)] == transmissions
    assert {len(block) for block in blocks} <= {size}
    assert all(len(unpad(block)) <= size - 2 - 16 for block in blocks)


@pytest.mark.parametrize(
    ("bytes_each", "block_bytes", "count"),
    [(121 - 2, NTF_BLOCK_BYTES, 4), (121 - 2, SMP_BLOCK_BYTES, 135), (203 - 2, SMP_BLOCK_BYTES, 80)],
    ids=["SCHK", "NSUB", "NMSG"],
)
def test_a_block_takes_as_many_as_the_reference_has_it_take(bytes_each: int, block_bytes: int, count: int) -> None:
    blocks = list(batch_blocks([bytes(bytes_each)] * (count + 1), block_bytes))
    assert [len(batched(block)) for block in blocks] == [count, 1]


def test_a_count_is_one_byte() -> None:
    assert [len(batched(block)) for block in batch_blocks([b""] * 256, SMP_BLOCK_BYTES)] == [255, 1]


def test_the_longest_transmission_fills_its_block() -> None:
    assert batched(next(batch_blocks([bytes(FITTING)], NTF_BLOCK_BYTES))) == (bytes(FITTING),)
    with pytest.raises(ValueError, match="too long for a block"):
        list(batch_blocks([bytes(FITTING + 1)], NTF_BLOCK_BYTES))


@pytest.mark.parametrize(
    "content",
    ["", "00", "01", "01 0002 61", "02 0001 61", "01 0001 61 00"],
    ids=["nothing", "empty", "no transmission", "a short one", "one too few", "bytes to spare"],
)
def test_anything_else_is_no_batch(content: str) -> None:
    with pytest.raises(MalformedSimplex):
        batched(pad(bytes.fromhex(content), NTF_BLOCK_BYTES))
