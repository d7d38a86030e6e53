"""Which of the relay's messages are requests."""

from clarion.networks.walletconnect.tags import WALLET_TAGS
from walletconnect.requests import RECEIPT_TAG, REQUESTS


def test_each_tag_that_ingest_passes_on_is_handled() -> None:
    assert set(REQUESTS) | {RECEIPT_TAG} == WALLET_TAGS
