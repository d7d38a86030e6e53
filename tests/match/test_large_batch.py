"""Hundreds of statements in one invocation."""

import tracemalloc
from time import process_time

from infra.environments import PROD
from match.capacity import PAGES
from tests.match.ledger import PAGE, large_batch
from tests.match.scene import Scene

DEPLOYED = PROD.match.size


def test_hundreds_take_a_small_part_of_an_invocations_time_and_memory(scene: Scene) -> None:
    scene.settings = scene.settings.model_copy(update={"fan_out_page": PAGE})
    tracemalloc.start()
    started = process_time()
    try:
        bill = large_batch(scene.elsewhere(), pairs=300)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert process_time() - started < DEPLOYED.timeout_s / 2  # which includes what stands for AWS, and the tracing
    assert most < (DEPLOYED.memory_mb << 20) / 16
    of_subscriptions = of_windows = 3
    assert bill.requests["BatchGetItem"] == of_subscriptions + of_windows
    assert bill.requests["SendMessageBatch"] == 30
    assert bill.requests["PutRecordBatch"] == 1


def test_what_an_invocation_has_no_room_for_goes_on_in_messages(scene: Scene) -> None:
    """However many want the statements of a batch, its memory is bounded."""
    scene.settings = scene.settings.model_copy(update={"fan_out_page": 1})
    scene.subscribe()
    assert scene.elsewhere().take(*scene.observe_new(PAGES + 5)) == set()
    assert len(scene.pushes()) == PAGES
    onward = scene.again()
    assert len(onward) == 5
    assert scene.elsewhere().take(*onward) == set()
    assert len(scene.pushes()) == 5
