"""`clarion redrive QUEUE`: move a queue's dead letters back into it."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import boto3
from botocore.exceptions import ClientError

from console.deployment import Deployment, Queue
from console.depths import depth
from console.faults import Trouble
from console.output import Report, confirm, progress

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import ListMessageMoveTasksResultEntryTypeDef

POLL_SECONDS = 1.0
COUNTING_SECONDS = 5.0
"""SQS may call a task completed before it has counted what it moved."""
AT_ONCE = 10
"""Messages of one batch call."""
UNKNOWN = {"InvalidAction", "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"}
"""What an emulator says of move tasks."""
HIDDEN_SECONDS = 60


class Moved(NamedTuple):
    """How many messages went, and whether that was all there was to do."""

    messages: int
    done: bool


class Redriven(Report):
    """`left` dead letters and `moved` messages are as SQS counts them: approximately, so they do not show whether it is `done`."""

    stage: str
    queue: str
    dry_run: bool
    moved: int
    left: int
    done: bool

    def __rich__(self) -> str:
        if self.dry_run:
            return f"{self.left} dead letters of {self.queue} would be moved back; nothing was."
        return f"{self.moved} messages moved back to {self.queue}, {self.left} dead letters left."


def redrive(here: Deployment, name: str, per_second: int | None, *, dry_run: bool, yes: bool) -> Redriven:
    sqs, queue = boto3.client("sqs"), here.queue(name)
    dead = depth(sqs, queue.dead_url)
    moved = Moved(0, done=False)
    if dead.waiting and not dry_run:
        calls = "; calls older than 30 s will end as stale" if name == "voip" else ""
        confirm(f"Move {dead.waiting} dead letters of {here} back to {name}{calls}?", yes=yes)
        with progress(f"moving to {name}") as shown:
            moved = move(
                sqs, queue, dead.waiting, per_second, lambda done: shown.at(f"moving to {name}", done, dead.waiting)
            )
    left = depth(sqs, queue.dead_url).total
    return Redriven(stage=here.stage, queue=name, dry_run=dry_run, moved=moved.messages, left=left, done=moved.done)


def move(
    sqs: "SQSClient", queue: Queue, count: int, per_second: int | None, progressed: Callable[[int], None]
) -> Moved:
    """The destination is named, since what a function dead-lettered itself has no origin to go to."""
    dead, alive = _arn(sqs, queue.dead_url), _arn(sqs, queue.url)
    limit = {"MaxNumberOfMessagesPerSecond": per_second} if per_second else {}
    try:
        task = sqs.start_message_move_task(SourceArn=dead, DestinationArn=alive, **limit)["TaskHandle"]
    except ClientError as error:
        if error.response["Error"]["Code"] not in UNKNOWN:
            raise
        moved = _by_hand(sqs, queue, count, per_second, progressed)
        return Moved(moved, done=moved > 0)
    try:
        return Moved(_watch(sqs, dead, progressed), done=True)
    except KeyboardInterrupt:
        sqs.cancel_message_move_task(TaskHandle=task)
        raise


def _watch(sqs: "SQSClient", dead: str, progressed: Callable[[int], None]) -> int:
    final_at = float("inf")
    while True:
        tasks = sqs.list_message_move_tasks(SourceArn=dead, MaxResults=1).get("Results", [])
        task: ListMessageMoveTasksResultEntryTypeDef = tasks[0] if tasks else {"Status": "RUNNING"}
        moved = task.get("ApproximateNumberOfMessagesMoved", 0)
        progressed(moved)
        match task.get("Status"):
            case "COMPLETED":
                final_at = min(final_at, time.monotonic() + COUNTING_SECONDS)
                if moved >= task.get("ApproximateNumberOfMessagesToMove", 0) or time.monotonic() >= final_at:
                    return moved
            case "RUNNING":
                pass
            case ended:
                reason = task.get("FailureReason", "no reason given")
                raise Trouble(f"SQS says {ended} after {moved} messages: {reason}")
        time.sleep(POLL_SECONDS)


def _by_hand(
    sqs: "SQSClient", queue: Queue, count: int, per_second: int | None, progressed: Callable[[int], None]
) -> int:
    """As SQS would do it: a message is there twice for a moment rather than not at all.

    No more than `count`, since a message that nothing can be done with is back at once.
    """
    moved = 0
    while moved < count:
        received = sqs.receive_message(
            QueueUrl=queue.dead_url,
            MaxNumberOfMessages=min(AT_ONCE, count - moved),
            VisibilityTimeout=HIDDEN_SECONDS,
        )
        messages = {message["MessageId"]: message for message in received.get("Messages", [])}
        if not messages:
            break
        sent = sqs.send_message_batch(
            QueueUrl=queue.url,
            Entries=[{"Id": name, "MessageBody": message["Body"]} for name, message in messages.items()],
        )
        gone = [messages[one["Id"]] for one in sent.get("Successful", [])]
        if not gone:
            raise Trouble(f"SQS took none of {len(messages)} messages; {moved} had been moved")
        sqs.delete_message_batch(
            QueueUrl=queue.dead_url,
            Entries=[{"Id": one["MessageId"], "ReceiptHandle": one["ReceiptHandle"]} for one in gone],
        )
        moved += len(gone)
        progressed(moved)
        time.sleep(len(gone) / per_second if per_second else 0)
    return moved


def _arn(sqs: "SQSClient", url: str) -> str:
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
