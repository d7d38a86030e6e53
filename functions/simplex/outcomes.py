"""What each command changes.

    code_delivered    REGISTERED ──▶ CONFIRMED
    token_died        ──▶ INVALID and why; in a month it is forgotten, and its queues with it; its newest items at once
    token_deleted     its queues are given up, and its rules and newest items erased
    token_revived     its queues are kept again, and have their rules back

Each may come twice, late, or in vain: what it is about is read first, and what has changed since stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pynamodb.connection import Connection
from pynamodb.expressions.update import Action

from clarion.cleanup import erase_dead
from clarion.decisions import SubscriptionStatus
from clarion.networks.simplex.bounds import INVALID_SECONDS, QUEUES_OF_TOKEN
from clarion.networks.simplex.commands import (
    CodeDelivered,
    SimplexCommand,
    TokenDeleted,
    TokenDied,
    TokenRevived,
)
from clarion.networks.simplex.queues import ENDED, FollowedQueue, ending, queue_keys_of
from clarion.networks.simplex.rules import key_of
from clarion.networks.simplex.statuses import TokenStatus
from clarion.networks.simplex.tokens import StoredToken, subscription_id
from clarion.tables import find_row, find_subscription, update_if
from simplex.reviving import Revival

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


class TooEarlyError(Exception):
    """What the command follows from has not been written yet."""


@dataclass(frozen=True, slots=True)
class TokenOutcomes:
    connection: Connection
    items_table: str
    revival: Revival

    def handle(self, command: SimplexCommand, now: int) -> None:
        """`now` is in UNIX milliseconds. Raises `TooEarlyError` and what AWS raises: try again later."""
        match command:
            case CodeDelivered():
                self._confirm(command)
            case TokenDied():
                self._invalidate(command, now)
            case TokenDeleted():
                self._give_up(command, now)
            case TokenRevived():
                self._revive(command, now)

    def _confirm(self, command: CodeDelivered) -> None:
        status = TokenStatus.CONFIRMED.value
        waits = StoredToken.status == TokenStatus.REGISTERED.value
        update_if(StoredToken(command.token_id), StoredToken.status.set(status), condition=waits)

    def _invalidate(self, command: TokenDied, now: int) -> None:
        """Unless it was registered again since that push was sent."""
        status, ttl = REASONS.get(command.reason or "", TokenStatus.INVALID), now // 1000 + INVALID_SECONDS
        row = StoredToken(command.token_id)
        actions = [StoredToken.status.set(status.value), StoredToken.ttl.set(ttl), StoredToken.added.set(0)]
        before = StoredToken.registered_at <= command.observed_at
        if update_if(row, *actions, condition=before) and row.verified:
            lost = StoredToken.lost_rules.set(True)
            update_if(row, lost, condition=StoredToken.status == status.value)
            self._update(command.token_id, [FollowedQueue.ttl.set(ttl)])
            self._erase_items(row.subscription_id)

    def _give_up(self, command: TokenDeleted, now: int) -> None:
        """The order comes before the deletion: if that was not done, its agent has been answered so."""
        row = find_row(StoredToken, command.token_id)
        if row is not None and not row.alias_of:
            return
        self._update(command.token_id, ending(now))
        of_token = subscription_id(command.token_id)
        if find_subscription(of_token) is None:
            erase_dead(self.connection, of_token, 0)
            self._erase_items(of_token)

    def _revive(self, command: TokenRevived, now: int) -> None:
        row = find_row(StoredToken, command.token_id)
        if row is None or not row.lost_rules:
            return
        subscription = find_subscription(row.subscription_id)
        if row.status != TokenStatus.ACTIVE or subscription is None:
            raise TooEarlyError("the token is not active")
        if subscription.status != SubscriptionStatus.ACTIVE:
            raise TooEarlyError("its subscription is not active")
        kept = self._update(command.token_id, [FollowedQueue.ttl.remove()])
        keys = [key_of(key) for key in kept][:QUEUES_OF_TOKEN]
        self.revival.revive(subscription, keys, now)
        again = [StoredToken.lost_rules.set(False), StoredToken.added.set(0)]
        update_if(row, *again, condition=StoredToken.status == TokenStatus.ACTIVE.value)

    def _erase_items(self, of_subscription: str) -> None:
        key = {"subscription_id": {"S": of_subscription}}
        self.connection.dispatch("DeleteItem", {"TableName": self.items_table, "Key": key})

    def _update(self, token_id: str, actions: Sequence[Action]) -> list[bytes]:
        """The keys of those that were updated: the token's queues that it has not given up."""
        followed = (FollowedQueue.token_id == token_id) & (FollowedQueue.bucket != ENDED)
        return [key for key in queue_keys_of(token_id) if update_if(FollowedQueue(key), *actions, condition=followed)]
