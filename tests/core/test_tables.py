import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from pynamodb.exceptions import UpdateError

from clarion.tables import error_code, refused


def _failure(cause: Exception) -> UpdateError:
    return UpdateError("failed", cause)


@pytest.mark.parametrize(
    ("code", "expected"), [("ConditionalCheckFailedException", True), ("ThrottlingException", False)]
)
def test_only_a_failed_condition_counts_as_refused(code: str, expected: bool) -> None:
    error = _failure(ClientError({"Error": {"Code": code, "Message": ""}}, "UpdateItem"))

    assert error_code(error) == code
    assert refused(error) is expected


def test_a_time_out_is_no_answer_and_no_refusal() -> None:
    error = _failure(ReadTimeoutError(endpoint_url="https://dynamodb"))

    assert error_code(error) is None
    assert not refused(error)
