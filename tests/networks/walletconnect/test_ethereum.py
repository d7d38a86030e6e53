import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.walletconnect.ethereum import checksummed, signer_of
from tests.walletconnect import Wallet

EIP_55_EXAMPLES = [
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0xde709f2102306220921060314715629080e2fb77",
]


@pytest.mark.parametrize("address", EIP_55_EXAMPLES)
def test_the_examples_of_eip_55_are_spelled_so(address: str) -> None:
    assert checksummed(bytes.fromhex(address[2:])) == address


@given(message=st.text(st.characters(exclude_categories=["Cs"])))
def test_who_signed_is_found_by_the_signature(wallet: Wallet, message: str) -> None:
    signature = wallet.personal_sign(message)
    assert wallet.account.endswith(signer_of(message, signature.hex()))


@pytest.mark.parametrize("spelled", ["0x{}", "{}"])
@pytest.mark.parametrize("added", [0, 27])
def test_a_signature_may_be_spelled_in_several_ways(wallet: Wallet, spelled: str, added: int) -> None:
    signature = wallet.personal_sign("a text")
    same = signature[:64] + bytes([signature[64] - 27 + added])
    assert wallet.account.endswith(signer_of("a text", spelled.format(same.hex())))
    assert wallet.account.endswith(signer_of("a text", spelled.format(same.hex().upper())))


@given(position=st.integers(0, 64 * 8 - 1))
def test_another_signature_is_anothers_or_nobodys(wallet: Wallet, position: int) -> None:
    signature = int.from_bytes(wallet.personal_sign("a text")) ^ 1 << (position + 8)
    try:
        signer = signer_of("a text", signature.to_bytes(65).hex())
    except ValueError:
        return
    assert not wallet.account.endswith(signer)


@given(signature=st.text() | st.binary(max_size=70).map(bytes.hex) | st.binary(min_size=65, max_size=65).map(bytes.hex))
def test_any_text_has_a_signer_or_is_no_signature(signature: str) -> None:
    try:
        signer = signer_of("a text", signature)
    except ValueError:
        return
    assert checksummed(bytes.fromhex(signer[2:])) == signer


@pytest.mark.parametrize("recovery_id", ["02", "1a", "1d", "ff"])
def test_another_recovery_id_is_none(wallet: Wallet, recovery_id: str) -> None:
    with pytest.raises(ValueError, match="not a recoverable signature"):
        signer_of("a text", wallet.personal_sign("a text")[:64].hex() + recovery_id)
