"""A rule made just before its statement counts, although the index of the rules lags behind."""

from clarion.messages import StatementMessage
from tests.match.meter import meter
from tests.match.scene import Scene


def test_what_nobody_wants_yet_is_looked_at_again(scene: Scene) -> None:
    [message] = scene.observe_new(1)
    assert scene.take(message) == set()
    [again] = scene.again()
    assert again == message.model_copy(update={"second_look": True})


def test_what_is_not_decided_yet_is_not_told(scene: Scene) -> None:
    with meter.running() as bill:
        scene.take(*scene.observe_new(3))
    assert bill.requests["PutRecordBatch"] == 0


def test_a_rule_that_showed_meanwhile_counts(scene: Scene) -> None:
    [message] = scene.observe_new(1)
    scene.take(message)
    scene.subscribe()
    scene.clock.advance(5)
    scene.take(*scene.again())
    assert [push.receipt for push in scene.pushes()] == [message.receipt]


def test_there_is_no_third_look(scene: Scene) -> None:
    scene.take(*scene.observe_new(1))
    scene.take(*scene.again())
    assert scene.again() == []


def test_an_old_statement_gets_one_look(scene: Scene) -> None:
    [message] = scene.observe_new(1)
    scene.clock.advance(10)
    scene.take(message)
    assert scene.again() == []


def test_a_wanted_statement_gets_one_look(scene: Scene) -> None:
    scene.subscribe()
    scene.take(*scene.observe_new(1))
    assert scene.again() == []


def test_a_forged_statement_gets_one_look(scene: Scene) -> None:
    scene.take(scene.observe(scene.sender.states()._replace(data=b"forged")))
    assert scene.again() == []


def test_an_older_message_has_had_no_second_look() -> None:
    old = '{"version":1,"receipt":"7b8e4f0e-8e3d-4f0e-9c58-0a7a8b1f3c11","observed_at":1,"statement":"AAAA"}'
    assert not StatementMessage.model_validate_json(old).second_look
