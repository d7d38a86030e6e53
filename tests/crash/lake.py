"""What came to the lake, or waits on its way there."""

import json
from typing import Any

import boto3

from tests.match.scene import lake_events


def recorded_events(late_events_queue_url: str) -> list[dict[str, Any]]:
    """All since the last look: what Firehose took, and what it didn't or may not have taken."""
    sqs, bodies = boto3.client("sqs"), list[str]()
    while found := sqs.receive_message(QueueUrl=late_events_queue_url, MaxNumberOfMessages=10).get("Messages"):
        for each in found:
            sqs.delete_message(QueueUrl=late_events_queue_url, ReceiptHandle=each["ReceiptHandle"])
            bodies.append(each["Body"])
    return [*lake_events(), *(json.loads(line) for body in bodies for line in body.splitlines())]
