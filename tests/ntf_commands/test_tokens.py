import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import PrivateKey
from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from clarion.decisions import Purpose, PushDecision, SubscriptionStatus
from clarion.metrics import Metric, dimensions
from clarion.networks import SIMPLEX, PushAnswer
from clarion.networks.simplex.bounds import INVALID_SECONDS, UNVERIFIED_SECONDS
from clarion.networks.simplex.commands import CodeDelivered, TokenDied, of_outcome, read_command
from clarion.networks.simplex.storage_key import StorageKey, UnopenableError
from clarion.networks.simplex.tokens import StoredToken
from clarion.settings import EMULATED_STAGE
from clarion.tables import Subscription, Token, WakeUp, transact
from ntf.commands import token, verification
from ntf.commands.replies import NtfCommands
from ntf.commands.store import NtfStore
from tests.simplex import DEVICE, NOW, Agent, Stage

AUTH, QUOTA, PROHIBITED, STORE = b"ERR AUTH", b"ERR QUOTA", b"ERR CMD PROHIBITED", b"ERR STORE unavailable"
OTHER_DEVICE = b"cd" * 32


def died(stage: Stage, agent: Agent, reason: str = "Unregistered") -> None:
    """As dispatch finds out: the subscription ends, and the worker is sent the reason."""
    row = stage.subscription(agent)
    ended = [
        Subscription.status.set(SubscriptionStatus.INVALID.value),
        Subscription.revision.add(1),
        Subscription.rule_count.set(0),
    ]
    row.update([*ended, Subscription.generation.set(row.revision + 1)])
    for holder in Token.scan():
        holder.delete()
    command = TokenDied(token_id=agent.token_id.hex(), reason=reason, registered_at=int(row.created_at))
    stage.token_commands.handle(command, stage.clock())


def test_a_new_token_gets_a_code_and_waits_for_it(stage: Stage) -> None:
    agent = stage.agent()
    assert agent.register().startswith(b"IDTKN ")
    (push,) = stage.pushes()
    assert (push.purpose, push.body, str(push.subscription_id)) == (
        Purpose.VERIFICATION,
        None,
        stage.token(agent).subscription_id,
    )
    assert len(agent.opened(push)["verification"]) == 32
    assert agent.status() == b"TKN REGISTERED"
    row, token = stage.subscription(agent), stage.token(agent)
    assert (row.status, row.environment, row.app) == ("pending", "production", "first")
    assert token.ttl == row.ttl == NOW // 1000 + UNVERIFIED_SECONDS
    assert not list(Token.scan())


def test_events_that_nobody_takes_are_counted_where_the_alarm_looks(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.sqs.delete_queue(QueueUrl=stage.sqs.get_queue_url(QueueName="late_events")["QueueUrl"])
    assert stage.agent().register().startswith(b"IDTKN ")
    (line,) = (line for line in capsys.readouterr().out.splitlines() if Metric.EVENTS_LOST in line)
    looked_at = dimensions(SIMPLEX, EMULATED_STAGE)
    counted = json.loads(line)
    assert counted[Metric.EVENTS_LOST] == [1]
    assert {name: counted[name] for name in looked_at} == looked_at


def test_the_code_makes_it_active_however_often_it_is_handed_back(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    code = agent.pushed_code()
    assert [agent.verify(code), agent.verify(code), agent.status()] == [b"OK", b"OK", b"TKN ACTIVE"]
    row = stage.subscription(agent)
    assert (row.status, row.attribute_values.get("ttl")) == ("active", None)
    assert [holder.holder for holder in Token.scan()] == [f"simplex/{row.subscription_id}"]


def test_another_code_verifies_nothing(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    assert [agent.verify(bytes(32)), agent.verify(b""), agent.status()] == [AUTH, AUTH, b"TKN REGISTERED"]


def test_who_registers_twice_has_one_token_and_the_same_code(stage: Stage) -> None:
    agent = stage.agent()
    first = agent.register()
    code = agent.pushed_code()
    assert agent.register() == first
    assert agent.pushed_code() == code
    assert len(list(StoredToken.scan())) == len(list(Subscription.scan())) == 1


def test_a_repetition_leaves_an_active_token_active(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.register()
    assert agent.status() == b"TKN ACTIVE"
    (push,) = stage.pushes()
    assert agent.verify(agent.opened(push)["verification"]) == b"OK"


def test_nobody_else_may_speak_for_a_token(stage: Stage) -> None:
    agent, stranger = stage.agent().activate(), stage.agent(b"stranger")
    stranger.token_id = agent.token_id
    asked = [stranger.status(), stranger.verify(b"c"), stranger.replace(OTHER_DEVICE), stranger.wake_up(20)]
    assert [*asked, stranger.ask(b"TDEL", agent.token_id), stranger.subscribe(1)] == [AUTH] * 6
    assert agent.status() == b"TKN ACTIVE"


def test_a_token_that_nobody_has_registered_is_answered_likewise(stage: Stage) -> None:
    agent = stage.agent()
    agent.token_id = bytes(24)
    assert [agent.status(), agent.ask(b"TDEL", bytes(24)), agent.subscribe(1)] == [AUTH] * 3


def test_another_key_for_pushes_is_refused_in_a_repetition(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    agent.dh = PrivateKey(b"y" * 32)
    assert agent.register() == AUTH


def test_what_is_no_token_of_apple_s_is_not_registered(stage: Stage) -> None:
    assert stage.agent(device=b"zz").register() == b"ERR CMD SYNTAX"
    assert not stage.pushes()


def test_a_token_of_nobody_s_is_registered_and_never_pushed_to(stage: Stage) -> None:
    agent = stage.agent(provider=b"AN")
    assert agent.register().startswith(b"IDTKN")
    assert agent.register().startswith(b"IDTKN")
    assert [agent.status(), agent.wake_up(20), agent.replace(b"cd")] == [b"TKN REGISTERED", b"OK", PROHIBITED]
    assert (stage.pushes(), list(Subscription.scan())) == ([], [])


def test_the_sandbox_s_tokens_go_there(stage: Stage) -> None:
    agent = stage.agent(provider=b"AD").activate()
    row = stage.subscription(agent)
    assert row.environment == "sandbox"


def test_an_environment_without_the_sandbox_registers_none_of_its_tokens(stage: Stage) -> None:
    production = stage.agent().activate()
    stage.pushes()
    options = stage.commands.store.options.model_copy(update={"sandbox_provider": False})
    without = replace(stage, commands=NtfCommands(replace(stage.commands.store, options=options)))
    assert without.agent(b"another", provider=b"AD").register() == PROHIBITED
    production.stage, production.provider = without, b"AD"
    assert production.replace(b"cd" * 32) == PROHIBITED
    assert (stage.pushes(), production.status()) == ([], b"TKN ACTIVE")


def test_who_proves_a_device_ends_whoever_had_it_before(stage: Stage) -> None:
    earlier = stage.agent(b"earlier").activate()
    earlier.subscribe(1)
    before = stage.token(earlier).subscription_id
    later = stage.agent(b"later").activate()
    stage.carry_out()
    assert (earlier.status(), later.status()) == (AUTH, b"TKN ACTIVE")
    assert [row.ended for row in stage.queues()] == [True]
    assert stage.rules(before) == []
    assert len(list(Token.scan())) == 1


def test_one_device_in_other_letters_is_the_same(stage: Stage) -> None:
    earlier = stage.agent(b"earlier", device=OTHER_DEVICE).activate()
    stage.agent(b"later", device=OTHER_DEVICE.upper()).activate()
    assert earlier.status() == AUTH


def test_another_token_is_proven_anew_and_keeps_id_and_queues(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.subscribe(1)
    assert agent.replace(OTHER_DEVICE) == b"OK"
    assert (agent.status(), agent.subscribe(2), agent.ask(b"SCHK", stage.queues()[0].queue_key)) == (
        b"TKN REGISTERED",
        AUTH,
        AUTH,
    )
    assert not list(Token.scan())
    assert agent.verify() == b"OK"
    row = stage.subscription(agent)
    assert (row.token, row.status, row.rule_count) == (OTHER_DEVICE.decode(), "active", 1)
    assert len(stage.rules(row.subscription_id)) == 1


def test_who_registers_the_other_token_finds_the_same_one(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.replace(OTHER_DEVICE)
    known, agent.device = agent.token_id, OTHER_DEVICE
    assert agent.register().startswith(b"IDTKN")
    assert agent.token_id == known
    third = b"ef" * 32
    agent.replace(third)
    agent.register()
    assert agent.token_id != known


def test_what_came_while_it_was_not_active_is_pushed_once_it_is(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.replace(OTHER_DEVICE)
    code = agent.pushed_code()
    number = stage.record(agent, "00000000", b"raw")
    agent.verify(code)
    (push,) = stage.pushes()
    assert (push.purpose, push.number, push.body) == (Purpose.REFRESH, number, None)


def owing(stage: Stage) -> tuple[Agent, bytes]:
    """An agent of a replaced token for which something has come, and the code that it waits for."""
    agent = stage.agent().activate()
    agent.replace(OTHER_DEVICE)
    code = agent.pushed_code()
    stage.record(agent, "00000000", b"raw")
    return agent, code


def test_who_verifies_a_token_again_and_again_has_what_came_pushed_once(stage: Stage) -> None:
    agent, code = owing(stage)
    assert [agent.verify(code) for _ in range(3)] == [b"OK"] * 3
    assert [push.purpose for push in stage.pushes()] == [Purpose.REFRESH]
    stage.clock.advance(1)
    stage.record(agent, "00000000", b"held back by a limit")
    assert (agent.verify(code), stage.pushes()) == (b"OK", [])


def test_what_a_crash_left_undone_after_a_verification_is_done_when_it_is_repeated(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, code = owing(stage)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(NtfStore, "push_newest", crash)
        with pytest.raises(KeyboardInterrupt):
            agent.verify(code)
    assert (agent.status(), stage.pushes()) == (b"TKN ACTIVE", [])
    assert [agent.verify(code), agent.verify(code)] == [b"OK"] * 2
    assert [push.purpose for push in stage.pushes()] == [Purpose.REFRESH]


def test_a_verification_that_ends_late_leaves_the_mark_of_a_later_one(stage: Stage) -> None:
    agent, code = owing(stage)
    store, early = stage.commands.store, stage.token(agent)
    assert agent.verify(code) == b"OK"
    stage.pushes()
    stage.clock.advance(1)
    agent.replace(DEVICE)
    stage.token(agent).update([StoredToken.follow_up.set(True)])
    early.status, early.follow_up = "ACTIVE", True
    verification.follow_up(store, early)
    assert stage.token(agent).follow_up


@pytest.mark.parametrize(("changes", "answer", "left"), [(1, b"OK", AUTH), (100, STORE, b"TKN ACTIVE")])
def test_who_proves_a_device_ends_another_token_of_it_that_changes_meanwhile_or_has_to_ask_again(
    changes: int, answer: bytes, left: bytes, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = stage.agent().activate(), stage.agent(b"second")
    second.register()
    code = second.pushed_code()
    number = 0

    def transact_after_a_change(connection: Connection, write: Callable[[TransactWrite], None]) -> bool:
        nonlocal number
        number += 1
        if number <= changes:
            stage.subscription(first).update([Subscription.revision.add(1)])
        return transact(connection, write)

    monkeypatch.setattr(token, "transact", transact_after_a_change)
    assert (second.verify(code), first.status()) == (answer, left)
    monkeypatch.undo()
    assert (second.verify(code), first.status(), stage.token(second).follow_up) == (b"OK", AUTH, False)


def test_nothing_is_left_of_a_deleted_token(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.subscribe(1)
    agent.wake_up(20)
    of = stage.token(agent).subscription_id
    assert agent.ask(b"TDEL", agent.token_id) == b"OK"
    stage.carry_out()
    assert agent.status() == AUTH
    assert (list(Subscription.scan()), list(Token.scan()), stage.rules(of)) == ([], [], [])
    assert not [entry for entry in WakeUp.scan() if entry.slot != "minutes"]
    assert [row.ended for row in stage.queues()] == [True]


def test_a_command_for_a_token_that_was_not_deleted_after_all_changes_nothing(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.subscribe(1)
    agent.ask(b"TDEL", agent.token_id)
    stage.sent_commands()
    agent.register()
    agent.verify()
    agent.subscribe(2)
    assert agent.ask(b"TDEL", agent.token_id) == b"OK"
    (command,) = stage.sent_commands()
    agent.activate()
    stage.token_commands.handle(command, stage.clock())
    assert not any(row.ended for row in stage.queues())


def test_wake_ups_come_as_often_as_they_may(stage: Stage) -> None:
    agent = stage.agent().activate()
    assert [agent.wake_up(minutes) for minutes in (1, 19, 20, 65535, 0)] == [QUOTA, QUOTA, b"OK", b"OK", b"OK"]
    row = stage.subscription(agent)
    assert row.wake_every_minutes is None


def test_a_code_that_was_delivered_confirms_its_token(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    (push,) = stage.pushes()
    command = of_outcome(push, PushDecision.DELIVERED, answer_of(agent))
    assert command
    assert isinstance(read_command(command.content), CodeDelivered)
    stage.token_commands.handle(read_command(command.content), stage.clock())
    assert agent.status() == b"TKN CONFIRMED"
    assert agent.verify(agent.opened(push)["verification"]) == b"OK"
    stage.token_commands.handle(read_command(command.content), stage.clock())
    assert agent.status() == b"TKN ACTIVE"


def test_a_code_that_was_delivered_to_the_token_before_confirms_nothing(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    (push,) = stage.pushes()
    command = of_outcome(push, PushDecision.DELIVERED, answer_of(agent))
    assert command
    agent.replace(OTHER_DEVICE)
    stage.token_commands.handle(read_command(command.content), stage.clock())
    assert agent.status() == b"TKN REGISTERED"


def test_a_dead_token_says_why_and_comes_to_life_with_its_queues(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.subscribe(1)
    died(stage, agent)
    assert agent.status() == b"TKN INVALID,UNREGISTERED"
    assert [row.ttl for row in stage.queues()] == [NOW // 1000 + INVALID_SECONDS]
    assert agent.subscribe(2).startswith(b"IDSUB")
    assert agent.ask(b"SCHK", bytes(stage.queues()[0].queue_key)) == b"SUB NEW"
    agent.activate()
    stage.carry_out()
    row = stage.subscription(agent)
    assert (row.status, row.rule_count) == ("active", 2)
    assert sorted(rule[1:] for rule in stage.rules(row.subscription_id)) == sorted(
        bytes(one.queue_key) for one in stage.queues()
    )
    assert [one.ttl for one in stage.queues()] == [None, None]
    assert not stage.token(agent).lost_rules


def test_a_death_from_before_the_token_was_registered_again_is_none(stage: Stage) -> None:
    agent = stage.agent().activate()
    stale = death_of(agent)
    stage.clock.advance(1)
    agent.replace(OTHER_DEVICE)
    stage.token_commands.handle(stale, stage.clock())
    assert agent.status() == b"TKN REGISTERED"


def answer_of(agent: Agent, reason: str | None = None) -> PushAnswer:
    """Of a dispatch that has read the row as it is now."""
    return PushAnswer(reason, int(agent.stage.subscription(agent).created_at))


def death_of(agent: Agent) -> TokenDied:
    """As dispatch reports it. The push was observed whenever."""
    agent.register()
    (push,) = agent.stage.pushes()
    command = of_outcome(push, PushDecision.TOKEN_GONE, answer_of(agent, "BadDeviceToken"))
    assert command
    died = read_command(command.content)
    assert isinstance(died, TokenDied)
    return died


@pytest.mark.parametrize("seconds", [0, -0.05], ids=["at once", "by a clock that is behind"])
def test_a_push_to_the_token_before_by_a_row_that_was_read_too_early_leaves_the_new_one_alive(
    stage: Stage, seconds: float
) -> None:
    agent = stage.agent().activate()
    stage.clock.advance(1)
    read_early = death_of(agent)
    stage.clock.advance(seconds)
    agent.replace(OTHER_DEVICE)
    assert agent.verify() == b"OK"
    stage.token_commands.handle(read_early, stage.clock())
    assert agent.status() == b"TKN ACTIVE"


def test_a_push_from_before_a_token_was_registered_says_of_that_token_that_it_is_dead(stage: Stage) -> None:
    """It waited, and went to the token that there was by then."""
    agent = stage.agent().activate()
    agent.register()
    (push,) = stage.pushes()
    stage.clock.advance(1)
    agent.replace(OTHER_DEVICE)
    agent.verify()
    row = stage.subscription(agent)
    command = of_outcome(push, PushDecision.TOKEN_GONE, PushAnswer("Unregistered", int(row.created_at)))
    assert command
    stage.token_commands.handle(read_command(command.content), stage.clock())
    assert agent.status() == b"TKN INVALID,UNREGISTERED"


def test_an_agent_of_an_older_version_is_told_no_reason(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    died(stage, agent, "BadDeviceToken")
    assert agent.status() == b"TKN INVALID,BAD"


def test_a_token_that_was_never_verified_is_forgotten(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    stage.clock.advance(UNVERIFIED_SECONDS)
    assert agent.status() == AUTH
    assert agent.register().startswith(b"IDTKN")


def test_what_is_stored_shows_no_secret(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    code = agent.pushed_code()
    row, token = stage.subscription(agent), stage.token(agent)
    stored = repr(row.attribute_values) + repr(token.attribute_values)
    for secret in (code, agent.secret):
        assert repr(secret)[2:-1] not in stored
    assert "abab" not in repr(token) + repr(row)


@given(st.binary(), st.binary(), st.binary())
def test_only_the_same_key_opens_and_only_in_the_same_context(content: bytes, context: bytes, other: bytes) -> None:
    key = StorageKey(b"k" * 64)
    sealed = key.seal(content, context)
    assert key.open(sealed, context) == content
    for box, asked in ((StorageKey(b"l" * 64), context), (key, context + b"x")):
        try:
            box.open(sealed, asked)
        except UnopenableError:
            continue
        raise AssertionError
    assert (key.id_of(b"a", content, other) == key.id_of(b"a", content + other)) is False
