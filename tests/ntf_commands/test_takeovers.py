"""Queues of a token that waits, is dead or is gone: how long they are followed, and whose they may become."""

from collections.abc import Callable

import pytest
from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from clarion.networks.simplex.bounds import INVALID_SECONDS, UNVERIFIED_SECONDS
from clarion.networks.simplex.commands import TokenDeleted, TokenReplaced
from clarion.networks.simplex.rules import key_of, queue_key
from clarion.networks.simplex.tokens import StoredToken
from clarion.tables import Subscription, find_subscription, transact
from ntf.commands import subscription, token
from simplex.token_queues import ContendedError
from tests.ntf_commands.test_tokens import OTHER_DEVICE, died
from tests.simplex import NOW, Agent, Stage, queue

AUTH = b"ERR AUTH"
THIRD_DEVICE = b"ef" * 32


def following(stage: Stage, name: bytes = b"o", device: bytes = b"ab" * 32) -> Agent:
    agent = stage.agent(name, device).activate()
    assert agent.subscribe(1).startswith(b"IDSUB")
    return agent


def ttls(stage: Stage) -> list[float | None]:
    return [row.ttl for row in stage.queues()]


def forget(stage: Stage, agent: Agent) -> None:
    """As DynamoDB does with a row whose time is over."""
    StoredToken(agent.token_id.hex()).delete()


def owners(stage: Stage) -> list[str]:
    return [row.token_id for row in stage.queues() if not row.ended]


def test_a_replaced_token_that_is_never_verified_is_forgotten_with_its_queues(stage: Stage) -> None:
    agent = following(stage)
    agent.replace(OTHER_DEVICE)
    stage.carry_out()
    assert ttls(stage) == [stage.token(agent).ttl] == [NOW // 1000 + INVALID_SECONDS]
    other = stage.agent(b"other", THIRD_DEVICE).activate()
    assert other.subscribe(1) == AUTH
    stage.clock.advance(INVALID_SECONDS + 1)
    assert other.subscribe(1).startswith(b"IDSUB")


def test_one_that_is_verified_in_time_costs_no_write_of_its_queues(stage: Stage) -> None:
    agent = following(stage)
    agent.replace(OTHER_DEVICE)
    assert agent.verify() == b"OK"
    assert [type(command) for command in stage.sent_commands()] == [TokenReplaced]
    stage.token_commands.handle(TokenReplaced(token_id=agent.token_id.hex()), stage.clock())
    assert ttls(stage) == [None]
    assert not stage.token(agent).lost_rules


def test_one_that_is_verified_late_keeps_its_queues_and_their_rules(stage: Stage) -> None:
    agent = following(stage)
    agent.replace(OTHER_DEVICE)
    code = agent.pushed_code()
    stage.carry_out()
    assert agent.verify(code) == b"OK"
    stage.carry_out()
    assert ttls(stage) == [None]
    row = stage.subscription(agent)
    assert (stage.rules(row.subscription_id), row.rule_count) == ([key_of(queue_key(queue(1)))], 1)
    assert not stage.token(agent).lost_rules


def test_the_worker_does_not_limit_what_was_verified_meanwhile(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its look at the token and its write of the queues, and also before the one that marks the token."""
    agent = following(stage)
    agent.replace(OTHER_DEVICE)
    code = agent.pushed_code()
    [command] = stage.sent_commands()

    def transact_after_verification(connection: Connection, write: Callable[[TransactWrite], None]) -> bool:
        agent.verify(code)
        return transact(connection, write)

    monkeypatch.setattr("simplex.token_queues.transact", transact_after_verification)
    with pytest.raises(ContendedError):
        stage.token_commands.handle(command, stage.clock())
    monkeypatch.undo()
    stage.token_commands.handle(command, stage.clock())
    stage.carry_out()
    assert (ttls(stage), stage.token(agent).lost_rules) == ([None], False)


def test_a_token_that_is_registered_again_keeps_its_queues_as_long_as_itself(stage: Stage) -> None:
    agent = following(stage)
    died(stage, agent)
    stage.clock.advance(INVALID_SECONDS / 2)
    agent.register()
    stage.carry_out()
    assert ttls(stage) == [stage.token(agent).ttl] == [NOW // 1000 + round(1.5 * INVALID_SECONDS)]


def test_a_queue_of_a_token_that_is_gone_is_free_and_the_others_are_given_up(stage: Stage) -> None:
    agent = following(stage)
    agent.subscribe(2)
    before = stage.token(agent).subscription_id
    stage.subscription(agent).delete()
    forget(stage, agent)
    other = stage.agent(b"other", OTHER_DEVICE).activate()
    assert other.subscribe(1, key=7).startswith(b"IDSUB")
    [command] = stage.sent_commands()
    assert command == TokenDeleted(token_id=agent.token_id.hex())
    stage.token_commands.handle(command, stage.clock())
    assert owners(stage) == [other.token_id.hex()]
    assert (stage.rules(before), len(stage.rules(stage.subscription(other).subscription_id))) == ([], 1)


def test_its_source_learns_of_who_has_taken_a_queue_over(stage: Stage) -> None:
    agent = following(stage)
    forget(stage, agent)
    stage.agent(b"other", OTHER_DEVICE).activate().subscribe(1, key=7)
    [row] = stage.queues()
    assert (row.status, row.changed_at > NOW) == ("NEW", True)


def test_a_queue_of_a_dead_token_is_taken_over_by_who_has_its_key(stage: Stage) -> None:
    agent = following(stage)
    died(stage, agent)
    other = stage.agent(b"other", OTHER_DEVICE).activate()
    assert (other.subscribe(1, key=7), owners(stage)) == (AUTH, [agent.token_id.hex()])
    assert other.subscribe(1).startswith(b"IDSUB")
    assert owners(stage) == [other.token_id.hex()]
    assert agent.ask(b"SCHK", queue_key(queue(1))) == AUTH
    agent.activate()
    stage.carry_out()
    assert stage.rules(stage.subscription(agent).subscription_id) == []


def test_nobody_takes_a_living_token_s_queue_over_by_its_key(stage: Stage) -> None:
    agent = following(stage)
    other = stage.agent(b"other", OTHER_DEVICE).activate()
    assert other.subscribe(1) == AUTH
    agent.replace(THIRD_DEVICE)
    assert other.subscribe(1) == AUTH
    assert owners(stage) == [agent.token_id.hex()]


def test_nor_of_one_that_comes_to_life_at_that_moment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = following(stage)
    died(stage, agent)
    other = stage.agent(b"other", OTHER_DEVICE).activate()

    def transact_after_revival(connection: Connection, write: Callable[[TransactWrite], None]) -> bool:
        monkeypatch.undo()
        agent.activate()
        stage.carry_out()
        return transact(connection, write)

    monkeypatch.setattr(subscription, "transact", transact_after_revival)
    assert other.subscribe(1) == AUTH
    assert owners(stage) == [agent.token_id.hex()]
    assert len(stage.rules(stage.subscription(agent).subscription_id)) == 1


def test_who_has_proven_a_device_ends_the_token_that_waits_for_its_code_there(stage: Stage) -> None:
    """An agent that has replaced its token, and forgotten it before it had the code."""
    agent = following(stage)
    agent.replace(OTHER_DEVICE)
    later = stage.agent(b"later", OTHER_DEVICE.upper())
    later.register()
    later.activate()
    assert later.subscribe(1).startswith(b"IDSUB")
    assert (owners(stage), agent.status()) == ([later.token_id.hex()], AUTH)


def do_before_finding_a_subscription(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Once, as another command would between the reads of this one."""
    acts = iter([act])

    def find_afterwards(subscription_id: str) -> Subscription | None:
        for each in acts:
            each()
        return find_subscription(subscription_id)

    monkeypatch.setattr(token, "find_subscription", find_afterwards)


def test_a_token_that_is_verified_at_that_moment_is_not_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = following(stage)
    agent.replace(OTHER_DEVICE)
    code = agent.pushed_code()
    later = stage.agent(b"later", OTHER_DEVICE).activate()
    do_before_finding_a_subscription(monkeypatch, lambda: agent.verify(code))
    assert later.subscribe(1) == AUTH
    assert (agent.status(), owners(stage)) == (b"TKN ACTIVE", [agent.token_id.hex()])


def test_a_token_that_is_replaced_while_it_is_deleted_leaves_no_alias(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = stage.agent().activate()
    do_before_finding_a_subscription(monkeypatch, lambda: agent.replace(OTHER_DEVICE))
    assert agent.ask(b"TDEL", agent.token_id) == b"OK"
    assert list(StoredToken.scan()) == []


def test_but_who_waits_for_a_code_itself_ends_nobody(stage: Stage) -> None:
    agent = following(stage)
    agent.replace(OTHER_DEVICE)
    stranger = stage.agent(b"stranger", THIRD_DEVICE).activate()
    stranger.replace(OTHER_DEVICE)
    assert stranger.subscribe(1) == AUTH
    assert agent.status() == b"TKN REGISTERED"


def test_what_is_left_of_a_token_that_is_registered_anew_is_subscribed_to_again(stage: Stage) -> None:
    agent = following(stage)
    died(stage, agent)
    stage.subscription(agent).delete()
    forget(stage, agent)
    agent.activate()
    assert agent.subscribe(1).startswith(b"IDSUB")
    row = stage.subscription(agent)
    assert (ttls(stage), row.rule_count, len(stage.rules(row.subscription_id))) == ([None], 1, 1)


def test_an_alias_is_there_as_long_as_the_token_that_it_leads_to(stage: Stage) -> None:
    agent = stage.agent()

    def aliases() -> list[tuple[str, float | None]]:
        return [(row.alias_of, row.ttl) for row in StoredToken.scan() if row.alias_of]

    agent.register()
    agent.replace(OTHER_DEVICE)
    assert aliases() == [(agent.token_id.hex(), NOW // 1000 + UNVERIFIED_SECONDS)]
    agent.verify()
    assert aliases() == [(agent.token_id.hex(), None)]
    died(stage, agent)
    assert aliases() == [(agent.token_id.hex(), stage.token(agent).ttl)]
    agent.replace(THIRD_DEVICE)
    assert aliases() == [(agent.token_id.hex(), stage.token(agent).ttl)]
    known, agent.device = agent.token_id, THIRD_DEVICE
    agent.activate()
    assert (agent.token_id, aliases()) == (known, [(known.hex(), None)])
    agent.ask(b"TDEL", known)
    assert list(StoredToken.scan()) == []


def test_back_to_the_first_device_there_is_no_alias(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.replace(OTHER_DEVICE)
    agent.replace(agent.device)
    assert [row.token_id for row in StoredToken.scan()] == [agent.token_id.hex()]


def test_a_token_that_waits_at_the_other_s_id_stays_there(stage: Stage) -> None:
    """One owner's key for two tokens, of which one is replaced by the other."""
    agent, second = stage.agent().activate(), stage.agent(device=OTHER_DEVICE).activate()
    assert agent.replace(OTHER_DEVICE) == b"OK"
    assert (agent.status(), second.status()) == (b"TKN REGISTERED", b"TKN ACTIVE")
    assert agent.verify() == b"OK"
    assert (agent.status(), second.status()) == (b"TKN ACTIVE", AUTH)
