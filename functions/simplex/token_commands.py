"""What each command changes.

    code_delivered    REGISTERED ──▶ CONFIRMED
    token_died        ──▶ INVALID and why; in a month it is forgotten, and its queues with it; its newest items at once
    token_deleted     its queues are given up, and its rules and newest items erased
    token_replaced    if it still waits for its code, its queues are kept no longer than it is
    token_revived     its queues are kept for good, and have their rules back

Each may come twice, late, or in vain: what it is about is read first, and what has changed since stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from clarion.cleanup import erase_dead
from clarion.command_queue import MayPassError, OutOfTimeError
from clarion.decisions import SubscriptionStatus
from clarion.generations import NEVER
from clarion.networks.simplex.bounds import INVALID_SECONDS, QUEUES_OF_TOKEN
from clarion.networks.simplex.commands import (
    CodeDelivered,
    SimplexCommand,
    TokenDeleted,
    TokenDied,
    TokenReplaced,
    TokenRevived,
)
from clarion.networks.simplex.rules import key_of
from clarion.networks.simplex.statuses import DEAD, TokenStatus
from clarion.networks.simplex.tokens import StoredToken, is_as_read, keep_alias, subscription_id
from clarion.tables import actions_of, find_row, find_subscription, transact, update_if
from simplex.token_queues import ContendedError, end_queues, keep_queues
from simplex.token_rules import TokenRules

REASONS: Mapping[str, TokenStatus] = MappingProxyType(
    {
        "BadDeviceToken": TokenStatus.INVALID_BAD,
        "DeviceTokenNotForTopic": TokenStatus.INVALID_TOPIC,
        "ExpiredToken": TokenStatus.INVALID_EXPIRED,
        "Unregistered": TokenStatus.INVALID_UNREGISTERED,
    }
)
"""Apple's words, as agents are told them.

https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
"""


class TooEarlyError(MayPassError):
    """What the command follows from has not been written yet."""


@dataclass(frozen=True, slots=True)
class TokenCommandHandler:
    connection: Connection
    items_table: str
    rules: TokenRules

    def handle(self, command: SimplexCommand, now: int, until: float = NEVER) -> None:
        """`now` is in UNIX milliseconds, `until` in seconds of the monotonic clock.

        Raises `MayPassError`, `OutOfTimeError`, and what AWS raises.
        """
        match command:
            case CodeDelivered():
                self._confirm(command)
            case TokenDied():
                self._invalidate(command, now, until)
            case TokenDeleted():
                self._give_up(command, now, until)
            case TokenReplaced():
                self._keep_no_longer(command, now, until)
            case TokenRevived():
                self._revive(command, now, until)

    def _confirm(self, command: CodeDelivered) -> None:
        """Unless another was registered since the one that was pushed to."""
        status = TokenStatus.CONFIRMED.value
        waits = StoredToken.status == TokenStatus.REGISTERED.value
        waits &= StoredToken.registered_at <= command.registered_at
        update_if(StoredToken(command.token_id), StoredToken.status.set(status), condition=waits)

    def _invalidate(self, command: TokenDied, now: int, until: float) -> None:
        """Unless another was registered since the one that was pushed to."""
        row = _find(command.token_id, now)
        if row is None or row.registered_at > command.registered_at:
            return
        if row.status not in DEAD:
            self._mark_dead(row, REASONS.get(command.reason or "", TokenStatus.INVALID), now)
        if row.verified:
            keep_queues(self.connection, row, until)
            self._erase_items(row.subscription_id)

    def _mark_dead(self, row: StoredToken, status: TokenStatus, now: int) -> None:
        ttl = now // 1000 + INVALID_SECONDS
        changes = {"status": status.value, "ttl": ttl, "lost_rules": True, "added": 0}

        def write(transaction: TransactWrite) -> None:
            transaction.update(row, actions=actions_of(StoredToken, changes), condition=is_as_read(row))
            keep_alias(transaction, row, ttl)

        if not transact(self.connection, write):
            raise ContendedError("others change the token")
        for name, value in changes.items():
            setattr(row, name, value)

    def _give_up(self, command: TokenDeleted, now: int, until: float) -> None:
        """The command is sent before the deletion: if that was not done, its agent has been answered so."""
        if _find(command.token_id, now) is not None:
            return
        end_queues(self.connection, command.token_id, now, until)
        of_token = subscription_id(command.token_id)
        if find_subscription(of_token) is None:
            if not erase_dead(self.connection, of_token, 0, until=until):
                raise OutOfTimeError("there was not the time for all of its rules")
            self._erase_items(of_token)

    def _keep_no_longer(self, command: TokenReplaced, now: int, until: float) -> None:
        """Its queues than itself. From then on `TVFY` has them kept again."""
        row = _find(command.token_id, now)
        if row is None or row.status == TokenStatus.ACTIVE or not row.verified:
            return
        if not update_if(row, StoredToken.lost_rules.set(True), condition=is_as_read(row)):
            raise ContendedError("others change the token")
        keep_queues(self.connection, row, until)

    def _revive(self, command: TokenRevived, now: int, until: float) -> None:
        row = _find(command.token_id, now)
        if row is None or not row.lost_rules:
            return
        subscription = find_subscription(row.subscription_id)
        if row.status != TokenStatus.ACTIVE or subscription is None:
            raise TooEarlyError("the token is not active")
        if subscription.status != SubscriptionStatus.ACTIVE:
            raise TooEarlyError("its subscription is not active")
        kept = keep_queues(self.connection, row, until)
        self.rules.restore(subscription, [key_of(key) for key in kept][:QUEUES_OF_TOKEN], now, until)
        again = [StoredToken.lost_rules.set(False), StoredToken.added.set(0)]
        update_if(row, *again, condition=is_as_read(row))

    def _erase_items(self, of_subscription: str) -> None:
        key = {"subscription_id": {"S": of_subscription}}
        self.connection.dispatch("DeleteItem", {"TableName": self.items_table, "Key": key})


def _find(token_id: str, now: int) -> StoredToken | None:
    """Unless it is gone, or another token's alias by now."""
    row = find_row(StoredToken, token_id)
    return None if row is None or row.alias_of or row.is_over(now) else row
