"""Secrets that a command fills in: each change follows the version that was read, so that none undoes another."""

from hashlib import sha256
from typing import NamedTuple

import boto3

from console.faults import Trouble


class StoredSecret(NamedTuple):
    secret_id: str
    text: str
    version: str


def read(secret_id: str) -> StoredSecret:
    answer = boto3.client("secretsmanager").get_secret_value(SecretId=secret_id)
    return StoredSecret(secret_id, answer["SecretString"], answer["VersionId"])


def read_former(secret_id: str) -> str | None:
    """The text that the present one has replaced; None if there was none."""
    client = boto3.client("secretsmanager")
    try:
        return client.get_secret_value(SecretId=secret_id, VersionStage="AWSPREVIOUS")["SecretString"]
    except client.exceptions.ResourceNotFoundException:
        return None


def replace(known: StoredSecret, text: str) -> None:
    """As the one version that follows `known`: of two operators who have read the same, the second is refused.

    A version is written once, and its id is the token of the request that writes it.
    https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_PutSecretValue.html
    """
    client, follows = boto3.client("secretsmanager"), sha256(known.version.encode()).hexdigest()
    try:
        client.put_secret_value(SecretId=known.secret_id, ClientRequestToken=follows, SecretString=text)
    except client.exceptions.ResourceExistsException:
        raise Trouble(f"somebody else has changed {known.secret_id} meanwhile: try again") from None
