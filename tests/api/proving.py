"""What the tests of proofs have in common: requests, and what dispatch would get."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import boto3

from api.worker import ApiWorker
from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.tables import Token
from clarion.tokens import token_hash
from tests.codes import code_of

SUBSCRIPTIONS = "/v1/subscriptions"
RULES = "/v1/subscriptions/rules"
RULE = {"sender_pubkey": "ab" * 32, "topic": "01" * 32}
HOUR, DAY = 3600 * 1000, 86_400 * 1000
NOBODYS = "A" * 43
"""A code that nobody was sent."""


def new_token() -> str:
    """Of an iPhone. It asks the stand-in for no trouble, which a token of other leading digits may do by chance."""
    return f"{uuid4().int:064x}"


@dataclass
class Inbox:
    """What dispatch would get."""

    worker: ApiWorker

    def pushes(self, channel: Channel = Channel.APNS) -> list[PushMessage]:
        sqs, url = boto3.client("sqs"), self.worker.settings.push_queues[channel]
        pushes = []
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                pushes.append(PushMessage.model_validate_json(message["Body"]))
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return pushes

    def code(self, channel: Channel = Channel.APNS) -> str:
        """Of the one push that is there."""
        [push] = self.pushes(channel)
        return code_of(push)


def register(client: Any, token: str, **body: Any) -> Any:
    answer = client("POST", SUBSCRIPTIONS, {"notificationType": "apns", "token": token, **body})
    assert answer.status == 201, answer.text
    return answer.json


def prove(client: Any, name: str, code: str) -> Any:
    return client("POST", f"{SUBSCRIPTIONS}/{name}/proof", {"code": code})


def state(client: Any, name: str) -> Any:
    answer = client("GET", f"{SUBSCRIPTIONS}/{name}")
    assert answer.status == 200, answer.text
    return answer.json


def owner_of(token: str, channel: Channel = Channel.APNS) -> list[str]:
    return [row.subscription_id for row in Token.query(token_hash(channel, token), consistent_read=True)]
