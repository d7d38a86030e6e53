from hashlib import sha256
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.zulip.devices import (
    ID_RANGE,
    KEY_PREFIX_BYTES,
    DeviceData,
    Profile,
    device_id,
    device_id_of_account,
    pack,
    unpack,
)

NUMBERS = st.integers(ID_RANGE.start, ID_RANGE.stop - 1)
SERVER, REALM, HASH = UUID(int=1), UUID(int=2), sha256(b"token").digest()


@given(
    st.builds(
        DeviceData,
        st.sampled_from(Profile),
        st.uuids(),
        NUMBERS,
        st.binary(min_size=KEY_PREFIX_BYTES, max_size=KEY_PREFIX_BYTES),
        st.integers(0, (1 << 64) - 1),
    )
)
def test_what_is_packed_is_unpacked(data: DeviceData) -> None:
    assert unpack(pack(data)) == data


@given(st.binary(max_size=60))
def test_whatever_is_unpacked_was_packed_here(packed: bytes) -> None:
    try:
        data = unpack(packed)
    except ValueError:
        return
    assert pack(data) == packed


@given(st.tuples(st.uuids(), st.uuids(), NUMBERS), st.tuples(st.uuids(), st.uuids(), NUMBERS))
def test_different_devices_have_different_ids(one: tuple[UUID, UUID, int], other: tuple[UUID, UUID, int]) -> None:
    assert (device_id(*one) == device_id(*other)) is (one == other)


@pytest.mark.parametrize(
    "other",
    [
        (REALM, SERVER, HASH, 1),
        (SERVER, SERVER, HASH, 1),
        (SERVER, REALM, sha256(b"TOKEN").digest(), 1),
        (SERVER, REALM, HASH, -1),
        (SERVER, REALM, HASH, 1 << 63),
    ],
)
def test_an_accounts_device_is_another_on_another_server_realm_token_or_account(
    other: tuple[UUID, UUID, bytes, int],
) -> None:
    assert device_id_of_account(*other) != device_id_of_account(SERVER, REALM, HASH, 1)


def test_the_ids_are_what_they_were() -> None:
    """Rows are found by them."""
    assert device_id(SERVER, REALM, -359574906294109112) == "f12485d1-e860-5a58-ad25-311f51bf86f2"
    assert device_id_of_account(SERVER, REALM, HASH, 17) == "6d9d24fc-1f36-58b8-8ab5-b3c442f99abc"


def test_no_device_has_an_id_of_the_other_profile() -> None:
    assert device_id(SERVER, REALM, 1) != device_id_of_account(SERVER, REALM, HASH, 1)
