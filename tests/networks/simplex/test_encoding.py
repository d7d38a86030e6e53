from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks import Malformed
from clarion.networks.simplex.encoding import (
    MalformedSimplex,
    Reader,
    items,
    long,
    short,
    word16,
    word64,
)


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (short(b"abc"), "03 616263"),
        (short(b""), "00"),
        (long(b"abc"), "0003 616263"),
        (word16(513), "0201"),
        (word64(1_700_000_000), "000000006553f100"),
        (items([short(b"a"), short(b"bc")]), "02 0161 026263"),
    ],
)
def test_each_value_has_these_bytes(encoded: bytes, expected: str) -> None:
    assert encoded == bytes.fromhex(expected)


@given(
    st.binary(max_size=255),
    st.binary(max_size=1000),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**64 - 1),
    st.lists(st.binary(max_size=9), max_size=255),
)
def test_what_was_written_is_read(a: bytes, b: bytes, c: int, d: int, e: list[bytes]) -> None:
    written = (short(a), long(b), word16(c), word64(d), items(map(short, e)), b"rest")
    reader = Reader(b"".join(written))
    assert (reader.short(), reader.long(), reader.word16(), reader.word64()) == (a, b, c, d)
    assert (reader.items(reader.short), reader.rest()) == (tuple(e), b"rest")
    reader.end()


@pytest.mark.parametrize(
    "read",
    [Reader.short, Reader.long, Reader.word16, Reader.word64],
)
@given(raw=st.binary(max_size=7))
def test_what_ends_too_early_is_malformed(read: Callable[[Reader], object], raw: bytes) -> None:
    reader = Reader(raw)
    try:
        read(reader)
    except MalformedSimplex:
        return
    assert len(reader.rest()) < len(raw)


@pytest.mark.parametrize("raw", ["05 61626364", "", "ff"])
def test_a_string_is_never_shorter_than_it_says(raw: str) -> None:
    with pytest.raises(MalformedSimplex, match="it ends too early"):
        Reader(bytes.fromhex(raw)).short()


def test_whatever_follows_the_end_is_malformed() -> None:
    with pytest.raises(MalformedSimplex, match="bytes to spare"):
        Reader(b"x").end()


def test_what_its_length_cannot_say_is_not_written() -> None:
    with pytest.raises(OverflowError):
        short(bytes(256))
    with pytest.raises(OverflowError):
        long(bytes(65_536))
    with pytest.raises(OverflowError):
        items([b""] * 256)


def test_the_error_is_the_networks() -> None:
    assert issubclass(MalformedSimplex, Malformed)
