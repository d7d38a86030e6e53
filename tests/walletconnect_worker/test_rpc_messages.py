from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.walletconnect.notifications import SentNotification
from walletconnect.rpc_messages import number_of, rpc_id_for, rpc_id_of

EXACT = 1 << 53
"""JavaScript's numbers are exact up to this."""
NUMBERS = st.integers(0, 50 * 365 * 48)
"""For fifty years of all that a subscriber may be sent."""


def sent(number: int, notification_id: object) -> SentNotification:
    return SentNotification("a subscription", number, notification_id=str(notification_id))


@given(NUMBERS, st.uuids())
def test_a_notification_is_found_by_the_id_of_its_request(number: int, notification_id: UUID) -> None:
    rpc_id = rpc_id_of(sent(number, notification_id))
    assert 0 <= rpc_id < EXACT
    assert number_of(rpc_id) == number


@given(NUMBERS, st.lists(st.uuids(), min_size=10, max_size=10, unique=True))
def test_notifications_of_several_subscriptions_are_told_apart(number: int, ids: list[UUID]) -> None:
    assert len({rpc_id_of(sent(number, each)) for each in ids}) > 8


@given(st.text())
def test_whatever_else_is_asked_has_an_id_that_is_exact(name: str) -> None:
    assert 0 <= rpc_id_for(name) < EXACT


@pytest.mark.parametrize("rpc_id", [-1, EXACT])
def test_what_can_be_no_notification_s_is_refused(rpc_id: int) -> None:
    with pytest.raises(ValueError, match="no notification's"):
        number_of(rpc_id)
