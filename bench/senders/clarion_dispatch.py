"""Clarion's dispatch path: from the queue's message and the device's token to the outcome."""

import json
from collections import Counter
from typing import TYPE_CHECKING, cast
from uuid import UUID, uuid4

from bench.senders.task import TOPIC, given, measure
from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements.payload import StatementBody
from clarion.providers.apns import ApnsApp
from clarion.providers.credentials import ApnsCredential, ApnsKey
from clarion.providers.sender import send
from clarion.providers.transport import Transport
from clarion.secrets import Secret
from clarion.tables import Subscription
from dispatch.pushes import build

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

NOW = 1_800_000_000.0


class OneSecret:
    """Secrets Manager as far as this bench asks it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self, *, SecretId: str) -> dict[str, str]:  # noqa: ARG002, N803 - as boto3 calls it
        return {"SecretString": self._text, "VersionId": "1"}


def message() -> PushMessage:
    return PushMessage(
        network=STATEMENTS,
        receipt=UUID(int=1),
        observed_at=int(NOW * 1000),
        envelope_id=uuid4().bytes + uuid4().bytes,
        subscription_id=uuid4(),
        client_id=bytes(32),
        channel=Channel.APNS,
        body=StatementBody(sender=bytes(range(32)), topic=bytes(range(32, 64)), data=bytes(250)),
        expires_at=int(NOW) + 3600,
    )


def main() -> None:
    task = given()
    text = json.dumps({"key_id": "LOCALKEY00", "team_id": "LOCALTEAM0", "private_key": task.key})
    secret = Secret(cast("SecretsManagerClient", OneSecret(text)), "apns", ApnsKey)
    app = ApnsApp(ApnsCredential(secret), name="bench", bundle_id=TOPIC, url=task.url)
    transport = Transport(str(task.ca_file))
    queue = [(message(), Subscription(token=uuid4().hex * 2)) for _ in range(task.pushes)]

    def dispatch(count: int) -> Counter[int]:
        pushes = [build(message, row, app, now=NOW) for message, row in queue[:count]]
        return Counter(outcome.status or 0 for outcome in send(transport, pushes))

    measure(task.pushes, dispatch)


if __name__ == "__main__":
    main()
