"""A message is kept for as long as moto keeps it."""

import pytest
from moto import mock_aws
from moto.core.utils import unix_time
from moto.sqs.models import Message, SQSBackend, sqs_backends

from tests import moto_queues

KEPT_S = 60


@pytest.mark.parametrize(("age_s", "kept"), [(0, True), (KEPT_S - 5, True), (KEPT_S + 5, False)])
def test_a_message_is_kept_as_moto_does(age_s: int, *, kept: bool) -> None:
    with mock_aws():
        backend = sqs_backends["123456789012"]["us-east-1"]
        backend.create_queue("queue", MessageRetentionPeriod=str(KEPT_S))
        message = Message("id", "body")
        message.sent_timestamp = (unix_time() - age_s) * 1000  # type: ignore[assignment] # moto begins with None
        ours = backend.is_message_valid_based_on_retention_period("queue", message)
        assert ours is moto_queues.MOTOS(backend, "queue", message) is kept


def test_the_quicker_way_is_the_one_that_tests_go() -> None:
    assert SQSBackend.is_message_valid_based_on_retention_period is not moto_queues.MOTOS
