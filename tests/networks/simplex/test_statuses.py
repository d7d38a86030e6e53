import pytest

from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.statuses import QueueStatus, TokenStatus, refused


@pytest.mark.parametrize(
    ("status", "from_version_3", "before"),
    [
        (TokenStatus.NEW, "NEW", "NEW"),
        (TokenStatus.REGISTERED, "REGISTERED", "REGISTERED"),
        (TokenStatus.INVALID, "INVALID", "INVALID"),
        (TokenStatus.INVALID_BAD, "INVALID,BAD", "INVALID"),
        (TokenStatus.INVALID_TOPIC, "INVALID,TOPIC", "INVALID"),
        (TokenStatus.INVALID_EXPIRED, "INVALID,EXPIRED", "INVALID"),
        (TokenStatus.INVALID_UNREGISTERED, "INVALID,UNREGISTERED", "INVALID"),
        (TokenStatus.CONFIRMED, "CONFIRMED", "CONFIRMED"),
        (TokenStatus.ACTIVE, "ACTIVE", "ACTIVE"),
        (TokenStatus.EXPIRED, "EXPIRED", "EXPIRED"),
    ],
)
def test_only_from_version_3_on_it_is_said_why_a_token_is_invalid(
    status: TokenStatus, from_version_3: str, before: str
) -> None:
    assert [status.text(version) for version in (1, 2, 3)] == [before, before, from_version_3]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ErrorType.AUTH, QueueStatus.AUTH),
        (ErrorType.SERVICE, QueueStatus.SERVICE),
        (ErrorType.QUOTA, "ERR QUOTA"),
        (ErrorType.CMD_SYNTAX, "ERR CMD SYNTAX"),
    ],
)
def test_an_smp_servers_refusal_is_a_status_of_the_subscription(error: ErrorType, status: str) -> None:
    assert refused(error) == status
