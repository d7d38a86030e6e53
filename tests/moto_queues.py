"""moto's SQS, without a count of the whole queue for each message that is received.

moto asks for all of a queue's attributes, three times over, to find out for how long the queue keeps a message; among
them are the numbers of its messages, which it counts by looking at each. Of tests that read long queues, that was two
fifths of the time.
"""

from moto.core.utils import unix_time
from moto.sqs.models import Message, SQSBackend

MOTOS = SQSBackend.is_message_valid_based_on_retention_period
"""The method as moto has it."""


def install() -> None:
    """For all of the process."""
    SQSBackend.is_message_valid_based_on_retention_period = _is_kept  # type: ignore[assignment, method-assign]


def _is_kept(backend: SQSBackend, queue_name: str, message: Message) -> bool:
    kept_s: int = backend.get_queue(queue_name).message_retention_period  # type: ignore[attr-defined]
    sent_ms = message.sent_timestamp or 0
    return kept_s + sent_ms / 1000 > unix_time()
