from collections.abc import Callable, Sequence

import pytest
from pynamodb.connection import Connection
from pynamodb.exceptions import GetError
from pynamodb.transactions import TransactWrite

from clarion.networks.simplex import bounds
from clarion.networks.simplex.queues import NEWS, FollowedQueue, bucket_of, queue_of, queues_since
from clarion.networks.simplex.rules import key_of, queue_key
from clarion.networks.simplex.tokens import StoredToken
from clarion.tables import Subscription, transact
from ntf.commands import room, subscription
from ntf.commands.store import NtfStore
from tests.match.meter import meter
from tests.simplex import NOW, Stage, notifier_key, queue

AUTH, QUOTA = b"ERR AUTH", b"ERR QUOTA"


def test_a_subscription_is_a_queue_to_follow_and_a_rule(stage: Stage) -> None:
    agent = stage.agent().activate()
    key = queue_key(queue(1))
    assert agent.subscribe(1) == b"IDSUB " + bytes([len(key)]) + key
    (row,) = stage.queues()
    assert (bytes(row.queue_key), queue_of(bytes(row.queue)), row.status) == (key, queue(1), "NEW")
    assert (row.token_id, row.bucket) == (agent.token_id.hex(), NEWS)
    subscription = stage.subscription(agent)
    assert subscription.rule_count == 1
    assert stage.rules(subscription.subscription_id) == [key_of(key)]


def test_its_source_finds_it_with_its_key(stage: Stage) -> None:
    stage.agent().activate().subscribe(1)
    (found,) = queues_since(NEWS, NOW)
    key = stage.commands.store.key.open(bytes(found.notifier_key), bytes(found.queue_key))
    assert (key, bytes(found.queue), found.status) == (notifier_key(1), queue(1).encoded, "NEW")


def test_the_same_again_is_the_same_subscription(stage: Stage) -> None:
    agent = stage.agent().activate()
    assert agent.subscribe(1) == agent.subscribe(1)
    assert len(stage.queues()) == 1


def test_one_that_could_not_be_followed_is_tried_again(stage: Stage) -> None:
    agent = stage.agent().activate()
    agent.subscribe(1)
    stage.clock.advance(60)
    here = bucket_of(queue(1).server)
    for status, after in (("ACTIVE", ("ACTIVE", here)), ("END", ("NEW", NEWS)), ("ERR QUOTA", ("NEW", NEWS))):
        stage.queues()[0].update([FollowedQueue.status.set(status), FollowedQueue.bucket.set(here)])
        agent.subscribe(1)
        (row,) = stage.queues()
        assert (row.status, row.bucket) == after
    assert stage.queues()[0].changed_at == NOW + 60_001


def test_a_queue_is_whose_it_was_first(stage: Stage) -> None:
    agent, other = stage.agent().activate(), stage.agent(b"other", b"cd" * 32).activate()
    agent.subscribe(1)
    assert (other.subscribe(1), agent.subscribe(1, key=2)) == (AUTH, AUTH)


def test_its_status_is_its_owner_s_to_ask(stage: Stage) -> None:
    agent, other = stage.agent().activate(), stage.agent(b"other", b"cd" * 32).activate()
    agent.subscribe(1)
    key = queue_key(queue(1))
    assert (agent.ask(b"SCHK", key), other.ask(b"SCHK", key)) == (b"SUB NEW", AUTH)
    assert (agent.ask(b"SCHK", bytes(24)), other.ask(b"SDEL", key)) == (AUTH, AUTH)
    stage.queues()[0].update([FollowedQueue.status.set("ERR INTERNAL")])
    assert agent.ask(b"SCHK", key) == b"SUB ERR INTERNAL"


def test_a_deleted_one_is_given_up_and_free(stage: Stage) -> None:
    agent, other = stage.agent().activate(), stage.agent(b"other", b"cd" * 32).activate()
    agent.subscribe(1)
    key = queue_key(queue(1))
    assert (agent.ask(b"SDEL", key), agent.ask(b"SDEL", key), agent.ask(b"SCHK", key)) == (b"OK", AUTH, AUTH)
    subscription = stage.subscription(agent)
    assert (subscription.rule_count, stage.rules(subscription.subscription_id)) == (0, [])
    assert [row.ended for row in stage.queues()] == [True]
    assert other.subscribe(1).startswith(b"IDSUB")


def test_before_its_token_is_active_there_is_none(stage: Stage) -> None:
    agent = stage.agent()
    agent.register()
    assert agent.subscribe(1) == AUTH


def test_a_token_has_so_many(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "QUEUES_OF_TOKEN", 2)
    agent = stage.agent().activate()
    assert [agent.subscribe(number)[:5] for number in range(3)] == [b"IDSUB", b"IDSUB", QUOTA[:5]]
    agent.ask(b"SDEL", queue_key(queue(0)))
    assert agent.subscribe(2).startswith(b"IDSUB")


def test_and_on_so_many_servers(stage: Stage) -> None:
    agent = stage.agent().activate()
    asked = [agent.subscribe(number, server=number)[:5] for number in range(bounds.SERVERS_OF_TOKEN + 1)]
    assert asked == [b"IDSUB"] * bounds.SERVERS_OF_TOKEN + [QUOTA[:5]]
    assert agent.subscribe(99).startswith(b"IDSUB")


def end_all(stage: Stage, status: str) -> None:
    """As the source writes it."""
    for row in stage.queues():
        row.update(
            [FollowedQueue.status.set(status), FollowedQueue.bucket.set(bucket_of(queue_of(bytes(row.queue)).server))]
        )


@pytest.mark.parametrize("status", ["DELETED", "END", "AUTH", "ERR CMD SYNTAX"])
def test_what_has_ended_makes_room_where_a_token_has_all_that_it_may(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    """Agents make another subscription instead, and give up none that has ended."""
    monkeypatch.setattr(subscription, "QUEUES_OF_TOKEN", 60)
    agent = stage.agent().activate()
    for number in range(60):
        agent.subscribe(number)
    end_all(stage, status)
    stage.clock.advance(1)
    assert agent.subscribe(60).startswith(b"IDSUB")
    row = stage.subscription(agent)
    assert (row.rule_count, len(stage.rules(row.subscription_id))) == (1, 1)
    assert sum(not one.ended for one in stage.queues()) == 1
    assert agent.ask(b"SCHK", queue_key(queue(0))) == AUTH
    assert agent.subscribe(0).startswith(b"IDSUB")


def test_and_servers_on_which_all_has_ended_count_no_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "SERVERS_OF_TOKEN", 2)
    agent = stage.agent().activate()
    agent.subscribe(1, server=1)
    agent.ask(b"SDEL", queue_key(queue(1, 1)))
    agent.subscribe(2, server=2)
    assert agent.subscribe(3, server=3).startswith(b"IDSUB")
    assert len(stage.token(agent).servers or ()) == 2
    assert agent.subscribe(4, server=4) == QUOTA


def test_a_queue_that_changes_meanwhile_leaves_the_room_of_the_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "QUEUES_OF_TOKEN", 3)
    agent = stage.agent().activate()
    for number in range(3):
        agent.subscribe(number)
    end_all(stage, "DELETED")
    changing = iter([next(row for row in stage.queues() if bytes(row.queue_key) == queue_key(queue(0)))])
    given_up = subscription._given_up

    def give_up_after_a_change(store: NtfStore, token: StoredToken, queues: Sequence[FollowedQueue]) -> bool:
        """The source subscribes to one again."""
        if row := next(changing, None):
            status = FollowedQueue.status.set("ACTIVE")
            row.update([status, FollowedQueue.changed_at.set(int(row.changed_at) + 1)])
        return given_up(store, token, queues)

    monkeypatch.setattr(subscription, "_given_up", give_up_after_a_change)
    assert agent.subscribe(3).startswith(b"IDSUB")
    assert agent.ask(b"SCHK", queue_key(queue(0))) == b"SUB ACTIVE"
    assert sum(not one.ended for one in stage.queues()) == 2


@pytest.mark.parametrize("status", ["NEW", "PENDING", "ACTIVE", "INACTIVE", "SERVICE"])
def test_what_its_agent_goes_on_with_is_never_given_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    monkeypatch.setattr(subscription, "QUEUES_OF_TOKEN", 1)
    agent = stage.agent().activate()
    agent.subscribe(1)
    end_all(stage, status)
    assert agent.subscribe(2) == QUOTA
    assert agent.ask(b"SCHK", queue_key(queue(1))) == f"SUB {status}".encode()


def test_a_token_that_is_full_is_looked_through_once_an_hour(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "QUEUES_OF_TOKEN", 10)
    agent = stage.agent().activate()
    for number in range(10):
        agent.subscribe(number)
    with meter.running() as first:
        assert agent.subscribe(10) == QUOTA
    with meter.running() as second:
        assert agent.subscribe(10) == QUOTA
    assert (second.reads, second.writes) == (3, 0)
    end_all(stage, "DELETED")
    assert agent.subscribe(10) == QUOTA
    stage.clock.advance(bounds.SEARCH_SECONDS)
    assert agent.subscribe(10).startswith(b"IDSUB")
    assert first.reads >= 10


def test_a_search_that_aws_has_cut_off_is_repeated_after_a_minute(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "QUEUES_OF_TOKEN", 1)
    agent = stage.agent().activate()
    agent.subscribe(1)
    end_all(stage, "DELETED")

    def refuse(_token: StoredToken) -> list[FollowedQueue]:
        raise GetError("throttled")

    monkeypatch.setattr(room, "_rows_of", refuse)
    assert agent.subscribe(2) == b"ERR STORE unavailable"
    monkeypatch.undo()
    monkeypatch.setattr(subscription, "QUEUES_OF_TOKEN", 1)
    assert agent.subscribe(2) == QUOTA
    stage.clock.advance(60)
    assert agent.subscribe(2).startswith(b"IDSUB")


def test_commands_that_race_pass_no_bound_of_a_token(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "SERVERS_OF_TOKEN", 2)
    agent = stage.agent().activate()
    before_each = iter([1, 2, None])
    find_queue = NtfStore.find_queue

    def find_after_another(store: NtfStore, key: bytes) -> FollowedQueue | None:
        """The token has been read by now."""
        if number := next(before_each, None):
            agent.subscribe(number, server=number)
        return find_queue(store, key)

    monkeypatch.setattr(NtfStore, "find_queue", find_after_another)
    assert agent.subscribe(3, server=3) == QUOTA
    assert (len(stage.token(agent).servers or ()), len(stage.queues())) == (2, 2)


def test_queues_of_a_dead_token_that_race_pass_no_bound(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "QUEUES_OF_TOKEN", 1)
    agent = stage.agent().activate()
    stage.token(agent).update([StoredToken.status.set("INVALID"), StoredToken.lost_rules.set(True)])
    stage.subscription(agent).update([Subscription.status.set("invalid")])
    stale = stage.token(agent)
    assert agent.subscribe(1).startswith(b"IDSUB")
    rows = iter([stale])
    monkeypatch.setattr(NtfStore, "find_token", lambda _store, _id: next(rows, None) or stage.token(agent))
    assert agent.subscribe(2) == QUOTA
    assert (stage.token(agent).added, len(stage.queues())) == (1, 1)


def test_a_token_with_all_its_servers_subscribes_on_them_though_it_is_dead(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "SERVERS_OF_TOKEN", 1)
    agent = stage.agent().activate()
    agent.subscribe(1)
    stage.token(agent).update([StoredToken.status.set("INVALID"), StoredToken.lost_rules.set(True)])
    stage.subscription(agent).update([Subscription.status.set("invalid")])
    assert agent.subscribe(2).startswith(b"IDSUB")


@pytest.mark.parametrize("command", [b"SCHK", b"SDEL"])
def test_a_stranger_is_refused_after_one_read_whether_there_is_a_subscription_or_not(
    stage: Stage, command: bytes
) -> None:
    agent, stranger = stage.agent().activate(), stage.agent(b"stranger")
    agent.subscribe(1)
    for asked in (queue_key(queue(1)), bytes(24), b"no id"):
        with meter.running() as bill:
            assert stranger.ask(command, asked) == AUTH
        assert (bill.reads, bill.writes) == (1, 0)


@pytest.mark.parametrize("token_id", [b"", b"no id", bytes(25)], ids=["empty", "short", "long"])
def test_a_subscription_for_what_is_no_token_s_id_is_refused_without_a_read(stage: Stage, token_id: bytes) -> None:
    """DynamoDB takes no empty key: anybody could have commands counted as failed."""
    agent = stage.agent().activate()
    agent.token_id = token_id
    with meter.running() as bill:
        assert agent.subscribe(1) == AUTH
    assert bill.reads == 0


def test_whoever_meets_another_change_of_the_token_s_tries_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = stage.agent().activate()
    others = iter([2, 3])

    def transact_after_another(connection: Connection, write: Callable[[TransactWrite], None]) -> bool:
        if number := next(others, None):
            agent.subscribe(number)
        return transact(connection, write)

    monkeypatch.setattr(subscription, "transact", transact_after_another)
    assert agent.subscribe(1).startswith(b"IDSUB")
    row = stage.subscription(agent)
    assert row.rule_count == len(stage.rules(row.subscription_id)) == len(stage.queues()) == 3


def test_what_aws_does_not_do_now_is_a_fault_of_the_store(stage: Stage) -> None:
    agent = stage.agent().activate()
    stage.sqs.delete_queue(QueueUrl=stage.commands.store.push_queue_url)
    assert agent.register() == b"ERR STORE unavailable"


def test_a_bug_is_an_internal_one(stage: Stage) -> None:
    agent = stage.agent().activate()
    stage.subscription(agent)
    row = stage.token(agent)
    row.update([type(row).status.set("no status")])
    assert agent.status() == b"ERR INTERNAL"
