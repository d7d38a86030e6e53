"""What can't be handled ends in the dead-letter queue with its reason, and is never lost on the way there."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError
from pynamodb.exceptions import GetError

from clarion.messages import EnvelopeMessage
from clarion.metrics import Metric
from match.faults import attempt
from tests.match.scene import Scene, received

LAST = 3


@pytest.fixture
def dead_letters(scene: Scene) -> Callable[[], list[tuple[str, str]]]:
    """What was buried since the last look, each with its reason. From here on `scene.room` knows where to bury."""
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName=f"buried-{uuid4()}")["QueueUrl"]
    scene.settings = scene.settings.model_copy(update={"dead_letter_url": url, "max_receives": LAST})
    scene.room = scene.elsewhere().room

    def look() -> list[tuple[str, str]]:
        found = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], MaxNumberOfMessages=10)
        return [(one["Body"], one["MessageAttributes"]["reason"]["StringValue"]) for one in found.get("Messages", ())]

    return look


def lost(scene: Scene) -> EnvelopeMessage:
    return EnvelopeMessage(receipt=uuid4(), observed_at=scene.clock(), location="not-there")


def test_what_cannot_be_read_is_buried_with_its_reason(
    scene: Scene, dead_letters: Callable[[], list[tuple[str, str]]]
) -> None:
    assert scene.take('{"version": 1}', *scene.observe_new(1)) == set()
    [(body, reason)] = dead_letters()
    assert body == '{"version": 1}'
    assert "receipt: Field required" in reason


def test_what_still_fails_at_its_last_receive_is_buried_with_its_reason(
    scene: Scene, dead_letters: Callable[[], list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    body = lost(scene).to_json()
    for receives in range(1, LAST):
        assert scene.room.take([received("lost", body, receives=receives)]) == ["lost"]
    assert dead_letters() == []
    assert scene.room.take([received("lost", body, receives=LAST)]) == []
    assert dead_letters() == [(body, "NoSuchKey from GetObject")]
    assert Metric.ENVELOPES_GIVEN_UP in capsys.readouterr().out


def test_what_succeeds_at_its_last_receive_is_no_dead_letter(
    scene: Scene, dead_letters: Callable[[], list[tuple[str, str]]]
) -> None:
    scene.subscribe()
    [message] = scene.observe_new(1)
    assert scene.room.take([received("late", message.to_json(), receives=LAST)]) == []
    assert len(scene.pushes()) == 1
    assert dead_letters() == []


def test_what_could_not_be_buried_is_left_to_the_queue_and_not_given_up(
    scene: Scene, dead_letters: Callable[[], list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    events, body = scene.clients.sqs.meta.events, lost(scene).to_json()

    def refuse(**_: object) -> Any:
        error = {"Code": "InternalError", "Message": "as planned"}
        return AWSResponse("", 500, HTTPHeaders(), None), {"Error": error}

    events.register_first("before-call.sqs.SendMessageBatch", refuse)
    try:
        records = [received("lost", body, receives=LAST), received("poison", "{}")]
        assert scene.room.take(records) == ["lost", "poison"]
    finally:
        events.unregister("before-call.sqs.SendMessageBatch", refuse)
    assert dead_letters() == []
    assert Metric.ENVELOPES_GIVEN_UP not in capsys.readouterr().out


def test_a_reason_quotes_nothing_of_what_aws_said() -> None:
    said = "The Canonical String should have been x-amz-security-token:a-session-token"
    refused = ClientError({"Error": {"Code": "SignatureDoesNotMatch", "Message": said}}, "PutItem")

    def fail(error: Exception) -> None:
        raise error

    for error in (refused, GetError("Failed to get item", refused)):
        assert attempt(fail, error) == ("SignatureDoesNotMatch from PutItem",)
