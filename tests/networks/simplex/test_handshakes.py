import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES, SMP_BLOCK_BYTES, pad
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.handshakes import (
    NTF_VERSIONS,
    NTF_VERSIONS_WITHOUT_ALPN,
    SmpServerHello,
    agreed_version,
    ntf_server_hello,
    read_smp_server_hello,
    smp_client_hello,
)

IDENTITY = b"i" * 32
SMP_HELLO = bytes.fromhex("0006 0012 02 7373 02 0001 61 0002 6263 0003 6b6b6b")
"""Versions 6 to 18, session `ss`, certificates `a` and `bc`, signed key `kkk`."""


def client_hello(version: str = "0003", identity: bytes = IDENTITY, rest: str = "") -> bytes:
    return pad(bytes.fromhex(version) + b"\x20" + identity + bytes.fromhex(rest), NTF_BLOCK_BYTES)


def smp_block(hello: bytes = SMP_HELLO) -> bytes:
    return pad(hello, SMP_BLOCK_BYTES)


def test_the_ntf_server_offers_its_versions_its_session_and_its_key() -> None:
    expected = bytes.fromhex("000b 0001 0003 02 7373 0002 6b6b")
    assert ntf_server_hello(NTF_VERSIONS, b"ss", b"kk") == expected + b"#" * 499


def test_without_alpn_it_offers_version_1_and_no_key() -> None:
    expected = bytes.fromhex("0007 0001 0001 02 7373")
    assert ntf_server_hello(NTF_VERSIONS_WITHOUT_ALPN, b"ss", b"kk") == expected + b"#" * 503


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_client_chooses_one_of_them(version: int) -> None:
    hello = client_hello(f"{version:04x}")
    assert agreed_version(hello, NTF_VERSIONS, IDENTITY) == version


def test_what_follows_in_a_hello_is_of_other_versions() -> None:
    assert agreed_version(client_hello(rest="2c00"), NTF_VERSIONS, IDENTITY) == 3


@pytest.mark.parametrize("version", ["0000", "0004", "ffff"])
def test_another_version_closes_the_connection(version: str) -> None:
    with pytest.raises(MalformedSimplex, match="a version that was not offered"):
        agreed_version(client_hello(version), NTF_VERSIONS, IDENTITY)


def test_without_alpn_there_is_no_version_2() -> None:
    with pytest.raises(MalformedSimplex, match="a version that was not offered"):
        agreed_version(client_hello("0002"), NTF_VERSIONS_WITHOUT_ALPN, IDENTITY)


def test_who_expects_another_server_is_not_served() -> None:
    with pytest.raises(MalformedSimplex, match="another server is expected"):
        agreed_version(client_hello(identity=b"j" * 32), NTF_VERSIONS, IDENTITY)


def test_the_hello_of_an_smp_server_is_read() -> None:
    assert read_smp_server_hello(smp_block(), b"ss") == SmpServerHello((b"a", b"bc"), b"kkk")
    assert read_smp_server_hello(smp_block(SMP_HELLO + b"more"), b"ss") == SmpServerHello((b"a", b"bc"), b"kkk")


def test_an_smp_server_of_another_session_is_not_followed() -> None:
    with pytest.raises(MalformedSimplex, match="another session"):
        read_smp_server_hello(smp_block(), b"tt")


@pytest.mark.parametrize("versions", ["0006 0009", "000b 0012", "0012 0006"])
def test_an_smp_server_without_version_10_is_not_followed(versions: str) -> None:
    with pytest.raises(MalformedSimplex, match="our version is not offered"):
        read_smp_server_hello(smp_block(bytes.fromhex(versions) + SMP_HELLO[4:]), b"ss")


def test_smp_is_spoken_at_version_10_without_a_key() -> None:
    assert smp_client_hello(IDENTITY) == bytes.fromhex("0023 000a 20") + IDENTITY + b"#" * (16_384 - 37)


@given(block=st.binary(max_size=600))
def test_anything_else_is_malformed(block: bytes) -> None:
    with pytest.raises(MalformedSimplex):
        agreed_version(block, NTF_VERSIONS, IDENTITY)
    with pytest.raises(MalformedSimplex):
        read_smp_server_hello(block, b"ss")
