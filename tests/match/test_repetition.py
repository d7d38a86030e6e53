"""A statement that proves younger than its first message said is forwarded again, for the sake of calls alone."""

from collections import Counter
from uuid import uuid4

import pytest

from clarion.channels import Channel
from clarion.messages import EnvelopeMessage, RepetitionMessage
from clarion.networks import STATEMENTS, network
from clarion.networks.statements.rules import CALL
from tests.match.scene import PAGE, Scene
from tests.match.test_fan_out import work_off


def observed_twice(scene: Scene) -> tuple[EnvelopeMessage, RepetitionMessage]:
    """As a replay brought it, and as a node showed it live."""
    [live] = scene.observe_new(1)
    replayed = live.model_copy(update={"replayed_since": 0})
    return replayed, RepetitionMessage(**live.observation, repeat_id=uuid4())


@pytest.mark.parametrize("overtaken", [False, True])
def test_a_repetition_queues_calls_again_and_alerts_never(scene: Scene, overtaken: bool) -> None:
    calls = {
        scene.subscribe(channel=Channel.VOIP).subscription_id,
        scene.subscribe(channel=Channel.FCM, condition=CALL).subscription_id,
    }
    alerts = {scene.subscribe(channel=channel).subscription_id for channel in (Channel.APNS, Channel.FCM)}
    messages = observed_twice(scene)
    for message in reversed(messages) if overtaken else messages:
        assert scene.take(message) == set()
    pushes = scene.pushes()
    assert Counter(str(push.subscription_id) for push in pushes) == Counter([*calls, *calls, *alerts])
    young = {str(push.subscription_id) for push in pushes if push.replayed_since is None}
    assert young == calls


def test_a_repetition_is_counted_once(scene: Scene) -> None:
    scene.subscribe(channel=Channel.VOIP)
    limit = network(STATEMENTS).limit
    assert limit
    for _ in range(limit.count):
        scene.take(*observed_twice(scene))
    assert len(scene.pushes()) == 2 * limit.count
    scene.take(*observed_twice(scene))
    assert scene.pushes() == []


def test_a_repetition_reaches_all_pages_of_a_crowd(scene: Scene) -> None:
    crowd = {scene.subscribe(channel=Channel.VOIP).subscription_id for _ in range(2 * PAGE)}
    for message in observed_twice(scene):
        scene.take(message)
        work_off(scene)
    young = [str(push.subscription_id) for push in scene.pushes() if push.replayed_since is None]
    assert Counter(young) == Counter(crowd)
