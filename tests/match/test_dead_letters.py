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

from clarion.metrics import Metric
from match.failures import attempt
from tests.match.scene import Scene, received

LAST = 3


@pytest.fixture
def dead_letters(scene: Scene) -> Callable[[], list[tuple[str, str]]]:
    """The dead letters since the last look, each with its reason. From here on `scene.worker` has a queue for them."""
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName=f"dead-{uuid4()}")["QueueUrl"]
    scene.settings = scene.settings.model_copy(update={"dead_letter_url": url, "max_receives": LAST})
    scene.worker = scene.elsewhere().worker

    def look() -> list[tuple[str, str]]:
        found = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], MaxNumberOfMessages=10)
        return [(one["Body"], one["MessageAttributes"]["reason"]["StringValue"]) for one in found.get("Messages", ())]

    return look


def test_what_cannot_be_read_is_dead_lettered_with_its_reason(
    scene: Scene, dead_letters: Callable[[], list[tuple[str, str]]]
) -> None:
    assert scene.take('{"kind": "envelope"}', *scene.observe_new(1)) == set()
    [(body, reason)] = dead_letters()
    assert body == '{"kind": "envelope"}'
    assert "receipt: Field required" in reason


def test_what_still_fails_at_its_last_receive_is_dead_lettered_with_its_reason(
    scene: Scene, dead_letters: Callable[[], list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    body = scene.lost().to_json()
    for receives in range(1, LAST):
        assert scene.worker.handle([received("lost", body, receives=receives)]) == ["lost"]
    assert dead_letters() == []
    assert scene.worker.handle([received("lost", body, receives=LAST)]) == []
    assert dead_letters() == [(body, "NoSuchKey from GetObject")]
    assert Metric.ENVELOPES_GIVEN_UP in capsys.readouterr().out


def test_what_succeeds_at_its_last_receive_is_no_dead_letter(
    scene: Scene, dead_letters: Callable[[], list[tuple[str, str]]]
) -> None:
    scene.subscribe()
    [message] = scene.observe_new(1)
    assert scene.worker.handle([received("late", message.to_json(), receives=LAST)]) == []
    assert len(scene.pushes()) == 1
    assert dead_letters() == []


def test_what_could_not_be_dead_lettered_is_left_to_the_queue_and_not_given_up(
    scene: Scene, dead_letters: Callable[[], list[tuple[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    events, body = scene.clients.sqs.meta.events, scene.lost().to_json()

    def refuse(**_: object) -> Any:
        error = {"Code": "InternalError", "Message": "as planned"}
        return AWSResponse("", 500, HTTPHeaders(), None), {"Error": error}

    events.register_first("before-call.sqs.SendMessageBatch", refuse)
    try:
        records = [received("lost", body, receives=LAST), received("poison", "{}")]
        assert scene.worker.handle(records) == ["lost", "poison"]
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
