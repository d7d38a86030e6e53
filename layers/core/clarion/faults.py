"""What AWS refused or did not answer, in words that can go into a log: an SDK's own text may quote the request."""

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

AWS_ERRORS = (BotoCoreError, ClientError, PynamoDBException)
"""What the SDKs raise after their own retries."""


def describe(error: Exception) -> str:
    """The error's code and the operation, such as `ThrottlingException from SendMessageBatch`; else its class."""
    cause = error.cause if isinstance(error, PynamoDBException) and error.cause else error
    if isinstance(cause, ClientError):
        return f"{cause.response['Error']['Code']} from {cause.operation_name}"
    return type(cause).__name__
