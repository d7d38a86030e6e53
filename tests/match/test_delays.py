"""What failed comes again soon: minutes later, a call would be stale."""

import boto3

from clarion.limiter import RETRIES
from infra.environments import PROD
from match.worker import retry_delay
from tests.match.scene import Scene, received


def test_a_statement_that_failed_does_not_wait_for_the_visibility_of_its_queue(scene: Scene) -> None:
    sqs, url = boto3.client("sqs"), scene.settings.queue_url
    lost = scene.lost()
    sqs.send_message(QueueUrl=url, MessageBody=lost.to_json())
    [message] = sqs.receive_message(QueueUrl=url, VisibilityTimeout=180)["Messages"]
    record = received(message["MessageId"], message["Body"], handle=message["ReceiptHandle"])
    assert scene.worker.handle([record]) == [message["MessageId"]]
    # The longest that a request may wait: far more than the delay, and far less than the visibility.
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"][0]["Body"] == lost.to_json()


def test_what_goes_on_failing_comes_ever_later() -> None:
    assert [retry_delay(receives) for receives in (1, 2, 3, 4, 9)] == [2, 10, 50, 250, 300]


def test_admissions_are_remembered_for_longer_than_any_mix_of_faults_and_stops_brings_retries() -> None:
    """After each receive but the last: the visibility where the function was stopped, else all of its time and the
    delay."""
    queue = PROD.match
    waits = [
        max(queue.visibility_s, queue.size.timeout_s + retry_delay(receives)) for receives in range(1, queue.receives)
    ]
    assert sum(waits) * 1000 < RETRIES
