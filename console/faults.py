"""What can go wrong between an operator and a deployment, in words, and the exit codes.

0    done, and all is well
1    done, but what was found is not well: an alarm, a dead letter, a push that was not delivered, no trace
2    not understood, or not confirmed: nothing was changed
3    AWS could not be asked, or refused: `Trouble`
130  interrupted
"""

import re
from enum import IntEnum
from urllib.parse import urlsplit

import click
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ReadTimeoutError,
    SSOError,
)
from pynamodb.exceptions import PynamoDBException

LONG_WORD = re.compile(r"\S{40,}")
"""What may be a push token. APNs' have 64 characters and more, FCM's over 140."""
STALE_CREDENTIALS = {"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException"}

AwsError = (BotoCoreError, ClientError, PynamoDBException)


class Exit(IntEnum):
    WELL = 0
    UNWELL = 1
    USAGE = 2
    TROUBLE = 3
    INTERRUPTED = 130


class Trouble(click.ClickException):
    """Nothing can be done until somebody mends what the message names."""

    exit_code = Exit.TROUBLE


class Unconfirmed(click.ClickException):
    exit_code = Exit.USAGE

    def __init__(self) -> None:
        super().__init__("not confirmed, so nothing was changed; --yes confirms where nobody can be asked")


def explained(error: Exception) -> str:
    """What an error of the AWS clients means for whoever has to mend it."""
    match error:
        case PynamoDBException(cause=Exception() as cause):
            return explained(cause)
        case NoRegionError():
            return "no AWS region: set AWS_DEFAULT_REGION, or AWS_PROFILE to a profile that has one"
        case NoCredentialsError() | PartialCredentialsError() | CredentialRetrievalError() | SSOError():
            return f"no AWS credentials: sign in, or set AWS_PROFILE ({error})"
        case EndpointConnectionError() | ConnectTimeoutError() | ReadTimeoutError() | ConnectionClosedError():
            # The rest of the address is as long as a key in the lake.
            # What stalls within an answer is raised without an address.
            host = urlsplit(error.kwargs["endpoint_url"] or "").netloc or "AWS"
            return f"{host} does not answer ({type(error).__name__})"
        case ClientError():
            return _refusal(error)
        case _:
            return f"{type(error).__name__}: {error}"


def discreet(message: str) -> str:
    """Without the words that a usage error repeats and that may be a push token."""
    return LONG_WORD.sub("…", message)


def _refusal(error: ClientError) -> str:
    refusal = error.response["Error"]
    if refusal["Code"] in STALE_CREDENTIALS:
        return f"the AWS credentials are no longer good: sign in again, and repeat the command ({refusal['Code']})"
    return f"AWS refuses {error.operation_name}: {refusal['Code']}: {refusal.get('Message', '')}"
