"""Scenario: agents of SimpleX register, verify, replace and delete tokens, subscribe to queues and give them up.

An agent that has no answer, or one that says that it should try again, repeats its command; what it orders comes to the
worker until it is done with. After each step, which takes a second, the tables are as if nothing had gone wrong.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from uuid import uuid4

from clarion.command_queue import MayPassError
from clarion.decisions import Purpose, SubscriptionStatus
from clarion.messages import PushMessage
from clarion.networks.simplex.commands import SimplexCommand, TokenDied
from clarion.networks.simplex.queues import FollowedQueue
from clarion.networks.simplex.rules import key_of, queue_key
from clarion.networks.simplex.tokens import StoredToken
from clarion.tables import Subscription, Token, WakeUp, find_row
from clarion.tokens import hash_of
from clarion.wake_ups import slot_of
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.events import KeptEvents
from tests.simplex import Agent, Clock, Stage, deploy, queue

PERIOD = 20
_numbers = count(1)


@dataclass
class Registering:
    """`first`, `second` and `third` are queues; `other` is who comes to have the first one."""

    clock: Clock = field(default_factory=Clock)
    _pushes: list[PushMessage] = field(default_factory=list)
    _orders: list[SimplexCommand] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stop()
        self.first, self.second, self.third = (next(_numbers) for _ in range(3))
        self.agent, self.other = self._new_agent(), self._new_agent()
        self.device = _device()
        self._steps: list[Callable[[], bool]] = [
            *self._activating(self.agent),
            self._check_one_token,
            *self._subscribing(self.agent, self.first, self.second),
            self._waking,
            self._check_followed,
            *self._replacing(),
            *self._dying(),
            self._giving_up,
            self._check_given_up,
            *self._activating(self.other),
            self._deleting,
            *self._subscribing(self.other, self.first),
            self._carry_out,
        ]

    def deliver(self) -> bool:
        while self._steps:
            if not self._steps[0]():
                return False
            wire.step(RETURN)
            del self._steps[0]
            self.clock.advance(1)
        return True

    def stop(self) -> None:
        with wire.aside():
            self.stage = Stage.make(self.clock, KeptEvents())
        for name in ("agent", "other"):
            if agent := getattr(self, name, None):
                agent.stage = self.stage

    def check(self) -> None:
        assert find_row(StoredToken, self.agent.token_id.hex()) is None, "the token is still there"
        assert not list(StoredToken.scan(StoredToken.alias_of == self.agent.token_id.hex())), "its alias is left over"
        assert self._rules(self.agent) == [], "its rules are left over"
        assert self._followed(self.agent) == [], "its queues are followed"
        assert self._followed(self.other) == [queue_key(queue(self.first))], "nobody follows the queue"
        self._check_rules(self.other, [self.first])

    def _activating(self, agent: Agent) -> Sequence[Callable[[], bool]]:
        return (
            lambda: self._answered(agent.register(), b"IDTKN "),
            lambda: self._answered(agent.verify(self._code(agent)), b"OK"),
            self._carry_out,
        )

    def _subscribing(self, agent: Agent, *numbers: int) -> Sequence[Callable[[], bool]]:
        return [partial(self._subscribe, agent, number) for number in numbers]

    def _subscribe(self, agent: Agent, number: int) -> bool:
        return self._answered(agent.subscribe(number), b"IDSUB ")

    def _replacing(self) -> Sequence[Callable[[], bool]]:
        """The worker comes before the code: so its queues are to be kept again."""
        return (
            lambda: self._answered(self.agent.replace(self.device), b"OK"),
            self._carry_out,
            self._check_waits,
            self._arriving,
            lambda: self._answered(self.agent.verify(self._code(self.agent)), b"OK"),
            self._carry_out,
            self._check_pushed,
            self._check_followed,
        )

    def _dying(self) -> Sequence[Callable[[], bool]]:
        return (
            self._die,
            self._carry_out,
            self._check_dead,
            lambda: self._answered(self.agent.replace(self.device), b"OK"),
            lambda: self._answered(self.agent.verify(self._code(self.agent)), b"OK"),
            self._carry_out,
            self._check_followed,
        )

    def _waking(self) -> bool:
        return self._answered(self.agent.wake_up(PERIOD), b"OK")

    def _giving_up(self) -> bool:
        return self._answered(self.agent.ask(b"SDEL", queue_key(queue(self.second))), b"OK", b"ERR AUTH")

    def _deleting(self) -> bool:
        """The order that comes of it lies there until the other agent has asked for the first queue."""
        return self._answered(self.agent.ask(b"TDEL", self.agent.token_id), b"OK", b"ERR AUTH")

    def _answered(self, answer: bytes, *good: bytes) -> bool:
        """False if it is to be asked again. What is deleted already is refused to who asks for it again."""
        assert answer == b"ERR STORE unavailable" or answer.startswith(good), f"the answer is {answer[:20]!r}"
        return answer.startswith(good)

    def _carry_out(self) -> bool:
        """All orders, each until it is done with."""
        with wire.aside():
            self._orders += self.stage.sent_commands()
        while self._orders:
            try:
                self.stage.token_commands.handle(self._orders[0], self.clock())
            except (*FAILED, MayPassError):
                return False
            wire.step(RETURN)
            del self._orders[0]
        return True

    def _code(self, agent: Agent) -> bytes:
        with wire.aside():
            self._pushes += self.stage.pushes()
            codes = [push for push in self._pushes if self._is_for(agent, push, Purpose.VERIFICATION)]
            return agent.opened(codes[-1])["verification"]

    def _is_for(self, agent: Agent, push: PushMessage, purpose: Purpose) -> bool:
        return push.purpose is purpose and push.client_id == StoredToken(agent.token_id.hex()).client_id

    def _arriving(self) -> bool:
        with wire.aside():
            self._number = self.stage.record(self.agent, "00000000", b"raw")
        return True

    def _die(self) -> bool:
        """As dispatch finds out."""
        with wire.aside():
            row = self.stage.subscription(self.agent)
            ended = {"status": SubscriptionStatus.INVALID.value, "revision": row.revision + 1, "rule_count": 0}
            row.update(Subscription.actions_of({**ended, "generation": row.revision + 1}))
            for holder in Token.query(hash_of(row)):
                holder.delete()
            name = self.agent.token_id.hex()
            self._orders.append(TokenDied(token_id=name, reason="Unregistered", registered_at=self.clock()))
        return True

    def _check_one_token(self) -> bool:
        with wire.aside():
            owned = [row for row in StoredToken.scan() if row.device_token.token == self.agent.device]
            assert [row.status for row in owned] == ["ACTIVE"], "there is not one token"
            assert not owned[0].ttl, "it will be forgotten"
        return True

    def _check_followed(self) -> bool:
        with wire.aside():
            row, token = self.stage.subscription(self.agent), self.stage.token(self.agent)
            assert token.status == "ACTIVE", "the token is not active"
            assert not token.ttl, "the token will be forgotten"
            assert not token.lost_rules, "its rules are to be written"
            assert row.status == SubscriptionStatus.ACTIVE, "the subscription is not active"
            assert [one.subscription_id for one in Token.query(hash_of(row))] == [row.subscription_id], (
                "it holds no token"
            )
            assert find_row(WakeUp, slot_of(row.subscription_id, PERIOD), row.subscription_id), "nobody wakes it"
            assert not any(queue.ttl for queue in self._rows(self.agent)), "its queues will be forgotten"
            self._check_rules(self.agent, [self.first, self.second])
        return True

    def _check_waits(self) -> bool:
        with wire.aside():
            token = self.stage.token(self.agent)
            assert token.status == "REGISTERED", "the token does not wait"
            assert [queue.ttl for queue in self._rows(self.agent)] == [token.ttl] * 2, "its queues are kept for ever"
            assert [row.ttl for row in StoredToken.scan(StoredToken.alias_of == token.token_id)] == [token.ttl]
            self._check_rules(self.agent, [self.first, self.second])
        return True

    def _check_pushed(self) -> bool:
        with wire.aside():
            self._pushes += self.stage.pushes()
            numbers = [push.number for push in self._pushes if self._is_for(self.agent, push, Purpose.REFRESH)]
            assert self._number in numbers, "what came meanwhile is not pushed"
        return True

    def _check_dead(self) -> bool:
        with wire.aside():
            token = self.stage.token(self.agent)
            assert token.status == "INVALID,UNREGISTERED", "the token does not say why"
            assert [queue.ttl for queue in self._rows(self.agent)] == [token.ttl] * 2, "its queues are kept for ever"
        return True

    def _check_given_up(self) -> bool:
        with wire.aside():
            assert self._followed(self.agent) == [queue_key(queue(self.first))], "the queue is followed"
            self._check_rules(self.agent, [self.first])
        return True

    def _check_rules(self, agent: Agent, numbers: list[int]) -> None:
        row = self.stage.subscription(agent)
        expected = sorted(key_of(queue_key(queue(number))) for number in numbers)
        assert sorted(self._rules(agent)) == expected, "rules came or went"
        assert row.rule_count == len(numbers), "they are counted otherwise"

    def _rules(self, agent: Agent) -> list[bytes]:
        return self.stage.rules(StoredToken(agent.token_id.hex()).subscription_id)

    def _followed(self, agent: Agent) -> list[bytes]:
        return [bytes(row.queue_key) for row in self._rows(agent)]

    def _rows(self, agent: Agent) -> list[FollowedQueue]:
        return [row for row in self.stage.queues() if row.token_id == agent.token_id.hex() and not row.ended]

    def _new_agent(self) -> Agent:
        return Agent(self.stage, uuid4().bytes, _device(), peer=uuid4().hex)


def _device() -> bytes:
    return (uuid4().hex * 2).encode()


def scenario() -> Scenario:
    deploy()
    return Scenario("registering", Registering)
