"""Scenario: a client replaces its subscription's rules, and asks again for as long as it gets no answer."""

from dataclasses import dataclass
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection import Connection
from pynamodb.exceptions import PynamoDBException

from clarion import tables
from clarion.cleanup import erase_dead
from clarion.networks import STATEMENTS
from clarion.rulesets import TRANSACTION_RULES, Owner, RequestContext, RuleSet, RuleSets, Unchanged
from clarion.tables import RuleRow, Subscription
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.match.scene import NOW, PREFIX

OLD: RuleSet = {bytes([number]) * 65: b"" for number in range(3)}
FEW: RuleSet = {bytes([number]) * 65: b"" for number in range(2, 32)}
"""Shares a rule with the old set; one transaction is enough."""
MANY: RuleSet = {bytes([number]) * 65: b"" for number in range(2, 3 + TRANSACTION_RULES)}
"""Takes a generation of its own, and four requests to write."""


ANSWERED_500 = (BotoCoreError, ClientError, PynamoDBException, AttributeError)
"""An AttributeError is what pynamodb 6.1 makes of a timeout when it is asked for its `cause_response_code`."""


@dataclass
class Replacement:
    connection: Connection
    new: RuleSet

    def __post_init__(self) -> None:
        self._claims: list[int] = []
        self._rule_sets = RuleSets(self.connection, limit=1000, request_cleanup=self._note_claim, sleep=lambda _: None)
        self._name, self._owner = str(uuid4()), Owner(STATEMENTS, uuid4().bytes * 2)
        Subscription(
            self._name,
            client_id=self._owner.client_id,
            network=self._owner.network,
            channel="apns",
            token="a-token",
            status="active",
            generation=0,
            revision=0,
            rule_count=0,
            created_at=NOW,
            updated_at=NOW,
        ).save()
        self._replace(OLD)

    def deliver(self) -> bool:
        try:
            outcome = self._replace(self.new)
            wire.step(RETURN)
        except ANSWERED_500:
            return False
        finally:
            with wire.aside():
                assert self._in_force() in (OLD, self.new), "neither the old set nor the new one was in force"
        return outcome is not Unchanged.CONTENDED

    def stop(self) -> None:
        """The API remembers nothing."""

    def check(self) -> None:
        assert self._in_force() == self.new, "the new set is not in force"
        for claim in self._claims:
            erase_dead(self.connection, self._name, claim)
        assert self._in_force() == self.new, "the clean-up erased rules in force"
        assert RuleRow.count(self._name, consistent_read=True) == len(self.new), "the clean-up left rules over"

    def _note_claim(self, _name: str, claim: int) -> None:
        """The queue keeps this, whatever becomes of the process."""
        self._claims.append(claim)

    def _replace(self, rules: RuleSet) -> object:
        return self._rule_sets.replace(self._name, self._owner, rules, RequestContext(NOW))

    def _in_force(self) -> RuleSet:
        """As match would see it."""
        subscription = Subscription.get(self._name, consistent_read=True)
        first, end = (tables.rule_key(int(subscription.generation) + more, b"") for more in (0, 1))
        rules: RuleSet = {
            rule.key: rule.condition or b"" for rule in RuleRow.query(self._name, RuleRow.rule_key.between(first, end))
        }
        assert len(rules) == subscription.rule_count, "the subscription miscounts its rules"
        return rules


def scenario(new: RuleSet) -> Scenario:
    connection = tables.bind(PREFIX)
    return Scenario("rules", lambda: Replacement(connection, new))
