"""RuleRow sets under crashes and races, against a plain model.

Every operation runs in a thread of its own and stops before each of its requests to DynamoDB. Hypothesis decides who
goes next, and after how many requests somebody crashes. Whatever the schedule, some order of the same operations,
done one after the other on a plain set, must explain all their answers and what is found at the end; an operation
that crashed may have happened or not.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError

from api.worker import ApiWorker
from clarion import subscriptions
from clarion.channels import Channel
from clarion.cleanup import erase, erase_dead
from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.networks import STATEMENTS
from clarion.rulesets import Changed, Owner, RequestContext, RuleSet, RuleSets, Unchanged, owned
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token, split_rule_key

OWNER = Owner(STATEMENTS, b"c" * 32)
NOW = RequestContext(now=1)
LIMIT = 202
BLOCKS = {"a": 1, "b": 1, "c": 1, "D": 50, "E": 50, "F": 100}
"""Rules come and go in blocks: the small ones fit a transaction together, D and E don't, nor does F alone."""
PAIRS = {name: [name.encode().ljust(32) + n.to_bytes(32) for n in range(size)] for name, size in BLOCKS.items()}
STEP_SECONDS = 300
"""So long may a thread take to its next request: only one that hangs takes longer."""
type Blocks = frozenset[str]


class Op(NamedTuple):
    kind: str
    blocks: Blocks = frozenset()


class Crash(BaseException):
    """The Lambda died."""


def pairs_of(blocks: Blocks) -> RuleSet:
    return {pair: b"" for name in sorted(blocks) for pair in PAIRS[name]}


def blocks_of(pairs: Any) -> Blocks:
    """Fails on a mix: a block is there as a whole or not at all."""
    found = frozenset(name for name, members in PAIRS.items() if members[0] in pairs)
    assert set(pairs) == set(pairs_of(found)), "half a change"
    return found


# ---- the model ----------------------------------------------------------------------------------------------


def size(blocks: Blocks) -> int:
    return sum(BLOCKS[name] for name in blocks)


DEAD = frozenset({"dead"})
"""The state of a subscription whose token died: it has no rules."""


def model(state: Blocks | None, op: Op) -> tuple[Blocks | None, Any]:
    """What one operation alone answers and leaves behind; None stands for a subscription that is gone."""
    if state is None or op.kind == "die":
        return (None if state is None else DEAD), "died" if op.kind == "die" else "not found"
    if state == DEAD and op.kind != "remove":
        return DEAD, frozenset() if op.kind == "read" else "invalid"
    return model_alive(state, op)


def model_alive(state: Blocks, op: Op) -> tuple[Blocks | None, Any]:
    match op.kind:
        case "put":
            return (op.blocks, "done") if size(op.blocks) <= LIMIT else (state, "too many")
        case "post":
            after = state | op.blocks
            return (after, (size(after - state), size(after))) if size(after) <= LIMIT else (state, "too many")
        case "delete":
            after = state - op.blocks
            return after, (size(state - after), size(after))
        case "read":
            return state, state
        case _:
            return None, "gone"


# ---- the real thing -----------------------------------------------------------------------------------------


def perform(op: Op, rule_sets: RuleSets, connection: Connection, sid: str) -> Any:
    rules = pairs_of(op.blocks)
    match op.kind:
        case "put":
            return summary(rule_sets.replace(sid, OWNER, rules, NOW), lambda _: "done")
        case "post":
            return summary(rule_sets.add(sid, OWNER, rules, NOW), lambda done: (len(done.added), done.total))
        case "delete":
            return summary(rule_sets.discard(sid, OWNER, rules, NOW), lambda done: (len(done.removed), done.total))
        case "read":
            return read(rule_sets, sid)
        case "die":
            return die(connection, sid)
        case _:
            return remove(connection, sid)


def die(connection: Connection, sid: str) -> str:
    """As often as the queue brings the push again."""
    while row := owned(sid, OWNER):
        try:
            declare_dead(connection, row, Death("gone", at=1))
        except TransactWriteError:
            continue
        break
    return "died"


def remove(connection: Connection, sid: str) -> str:
    removed = subscriptions.remove(connection, [sid], OWNER)
    return str(summary(removed, repr)) if isinstance(removed, Unchanged) else "gone"


def summary(outcome: Changed | Unchanged, of: Callable[[Changed], Any]) -> Any:
    names = {
        Unchanged.NOT_FOUND: "not found",
        Unchanged.INVALID: "invalid",
        Unchanged.TOO_MANY: "too many",
        Unchanged.SUPERSEDED: "done",
        Unchanged.CONTENDED: "contended",
    }
    return of(outcome) if isinstance(outcome, Changed) else names[outcome]


def read(rule_sets: RuleSets, sid: str) -> Any:
    found = rule_sets.read(sid, OWNER)
    if isinstance(found, Unchanged):
        return summary(found, repr)
    row, rules = found
    assert row.rule_count == len(rules)
    return blocks_of(rules)


def seen_by_the_matcher(sid: str) -> Blocks | None:
    """By the index, as matching looks rules up: those whose generation is their subscription's."""
    row = owned(sid, OWNER)
    if row is None:
        return None
    if row.status != SubscriptionStatus.ACTIVE:
        assert not any(in_force(sid, row.generation, members[-1]) for members in PAIRS.values())
        return DEAD
    return frozenset(name for name, members in PAIRS.items() if in_force(sid, row.generation, members[-1]))


def in_force(sid: str, generation: float, pair: bytes) -> bool:
    found = RuleRow.by_key.query(pair, RuleRow.subscription_id == sid)
    return any(split_rule_key(rule.rule_key)[0] == generation for rule in found)


# ---- one step at a time -------------------------------------------------------------------------------------


@dataclass
class Runner:
    """An operation in a thread, which stops before each request until it may go on."""

    op: Op
    crash_after: int | None
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    stopped: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    requests: int = 0
    answer: Any = None
    error: BaseException | None = None
    done: bool = False

    def run(self, perform: Callable[[Op], Any]) -> None:
        RUNNING.runner = self
        try:
            self.go.acquire()
            self.answer = perform(self.op)
        except BaseException as error:  # noqa: BLE001 - passed on to the test's own thread
            self.error = error
        finally:
            self.done = True
            self.stopped.release()

    def at_a_request(self) -> None:
        if self.requests == self.crash_after:
            raise Crash
        self.requests += 1
        self.stopped.release()
        self.go.acquire()

    def step(self) -> None:
        self.go.release()
        assert self.stopped.acquire(timeout=STEP_SECONDS)


RUNNING = threading.local()


def _before_a_request(**_: Any) -> None:
    runner: Runner | None = getattr(RUNNING, "runner", None)
    if runner:
        runner.at_a_request()


@pytest.fixture(scope="module")
def watched(worker: ApiWorker) -> Iterator[Connection]:
    connections = {model._get_connection().connection for model in (Subscription, Token, RuleRow)} | {worker.connection}
    clients = {connection.client for connection in connections}
    for client in clients:
        client.meta.events.register("before-call.dynamodb", _before_a_request)
    yield worker.connection
    for client in clients:
        client.meta.events.unregister("before-call.dynamodb", _before_a_request)


def race(runners: Sequence[Runner], schedule: Iterator[tuple[int, int]], perform: Callable[[Op], Any]) -> None:
    threads = [threading.Thread(target=runner.run, args=(perform,), daemon=True) for runner in runners]
    for thread in threads:
        thread.start()
    while waiting := [runner for runner in runners if not runner.done]:
        who, steps = next(schedule, (0, 1))
        runner = waiting[who % len(waiting)]
        while steps and not runner.done:
            runner.step()
            steps -= 1
    for thread in threads:
        thread.join()
    for runner in runners:
        assert runner.error is None or isinstance(runner.error, Crash), runner.error


def explained(before: Blocks | None, runners: Sequence[Runner], after: Blocks | None) -> bool:
    crashed = [runner for runner in runners if runner.error]
    finished = [runner for runner in runners if not runner.error]
    for took_effect in product([True, False], repeat=len(crashed)):
        effective = [*finished, *(runner for runner, did in zip(crashed, took_effect, strict=True) if did)]
        if any(in_this_order(before, order, after) for order in permutations(effective)):
            return True
    return False


def in_this_order(state: Blocks | None, order: Sequence[Runner], after: Blocks | None) -> bool:
    for runner in order:
        state, answer = model(state, runner.op)
        if not runner.error and runner.answer != answer:
            return False
    return state == after


LARGE = frozenset("DE")
SOME_BLOCKS = st.frozensets(st.sampled_from(sorted(BLOCKS))) | st.sampled_from([frozenset(), LARGE, LARGE | {"a"}])
SCHEDULES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), max_size=20)
"""Who goes next, and for how many requests."""
OPS = st.one_of(
    st.builds(Op, st.sampled_from(["put", "post", "delete"]), SOME_BLOCKS),
    st.just(Op("read")),
    st.just(Op("remove")),
    st.just(Op("die")),
)
RIVALS = st.lists(st.tuples(OPS, st.none() | st.integers(0, 12)), min_size=2, max_size=3)
"""Operations at one time, each with the number of requests after which it crashes."""


class Bench:
    """A subscription, and what it is known to hold."""

    def __init__(self, connection: Connection, state: Blocks) -> None:
        self.connection = connection
        self.claims: list[int] = []
        self.rule_sets = RuleSets(connection, limit=LIMIT, request_cleanup=lambda *_: None, sleep=lambda _: None)
        row = subscriptions.register(connection, Registration(*OWNER, Channel.FCM, str(uuid4())), now=1)
        assert isinstance(row, Subscription)
        self.sid = row.subscription_id
        self.rule_sets.replace(self.sid, OWNER, pairs_of(state), NOW)
        self.state: Blocks | None = state

    def race(self, rivals: Sequence[tuple[Op, int | None]], schedule: Iterator[tuple[int, int]]) -> list[Runner]:
        runners = [Runner(op, crash_after) for op, crash_after in rivals]
        race(runners, schedule, self._perform)
        after = seen_by_the_matcher(self.sid)
        shown = {None: "not found", DEAD: frozenset()}
        assert read(self.rule_sets, self.sid) == shown.get(after, after)
        self._clean_up()
        assert seen_by_the_matcher(self.sid) == after
        assert explained(self.state, runners, after), [(each.op, each.answer, each.error) for each in runners]
        self.state = after
        return runners

    def _perform(self, op: Op) -> Any:
        """As one Lambda of several does it."""
        rule_sets = RuleSets(self.connection, limit=LIMIT, request_cleanup=self._note_claim, sleep=lambda _: None)
        return perform(op, rule_sets, self.connection, self.sid)

    def _note_claim(self, _sid: str, claim: int) -> None:
        self.claims.append(claim)

    def _clean_up(self) -> None:
        """As is requested before a claim, a death or a removal, and done once that request has ended."""
        while self.claims:
            erase_dead(self.connection, self.sid, self.claims.pop())
        erase_dead(self.connection, self.sid, 0)
        row = owned(self.sid, OWNER)
        assert RuleRow.count(self.sid, consistent_read=True) == (row.rule_count if row else 0), "rules are left over"

    def clear(self) -> None:
        subscriptions.remove(self.connection, [self.sid], OWNER)
        erase(self.connection, self.sid)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=SOME_BLOCKS.filter(lambda blocks: size(blocks) <= LIMIT),
    rounds=st.lists(RIVALS, min_size=1, max_size=2),
    schedule=SCHEDULES,
)
def test_whatever_crashes_or_races_some_order_explains_it(
    watched: Connection,
    before: Blocks,
    rounds: list[list[tuple[Op, int | None]]],
    schedule: list[tuple[int, int]],
) -> None:
    bench = Bench(watched, before)
    steps = iter(schedule)
    for rivals in rounds:
        bench.race(rivals, steps)
    bench.clear()


SLOW = {
    "a large put": Op("put", frozenset("a")),
    "a large delete": Op("delete", LARGE),
    "a small post": Op("post", frozenset("a")),
    "a read": Op("read"),
}
QUICK = {
    "a large put": Op("put", frozenset("b")),
    "a small post": Op("post", frozenset("c")),
    "a removal": Op("remove"),
    "a death": Op("die"),
}
BUILT_ON_THE_OLD = {"a large post": Op("post", frozenset("F")), "a large delete": Op("delete", LARGE)}
"""These flip as a put does, but to a set that starts from the rules that were there."""
OVERTAKEN = {f"{one} by {other}": (SLOW[one], QUICK[other]) for one in SLOW for other in QUICK} | {
    f"a large put by {other}": (SLOW["a large put"], op) for other, op in BUILT_ON_THE_OLD.items()
}


@pytest.mark.parametrize(("slow", "quick"), OVERTAKEN.values(), ids=OVERTAKEN)
def test_an_operation_may_be_overtaken_or_crash_at_any_point(watched: Connection, slow: Op, quick: Op) -> None:
    alone = Bench(watched, LARGE)
    requests, stop = alone.race([(slow, None)], iter([(0, 1000)]))[0].requests, 0
    alone.clear()
    while stop < requests:
        bench = Bench(watched, LARGE)
        overtaken, _ = bench.race([(slow, None), (quick, None)], iter([(0, 1 + stop), (1, 1000)]))
        if bench.state is not None:
            bench.race([(slow, stop), (quick, None)], iter([(0, 1000)]))
        bench.clear()
        requests, stop = max(requests, overtaken.requests), stop + 1
