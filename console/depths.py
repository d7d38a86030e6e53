"""How full a queue is."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class Depth(NamedTuple):
    """SQS counts approximately, and a minute late. `in_flight` are with the function, or rest until another try."""

    waiting: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        return sum(self)


def depth(sqs: "SQSClient", url: str) -> Depth:
    counted = sqs.get_queue_attributes(
        QueueUrl=url,
        AttributeNames=[
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ],
    )["Attributes"]
    return Depth(
        int(counted["ApproximateNumberOfMessages"]),
        int(counted["ApproximateNumberOfMessagesNotVisible"]),
        int(counted["ApproximateNumberOfMessagesDelayed"]),
    )
