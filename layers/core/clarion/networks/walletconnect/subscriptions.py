"""Subscriptions of accounts to apps, as wallets have signed them; there is one for each account and app.

              subscribe                    update
    (none) ──────────────▶ active ────────────────────▶ active
                             │ ▲
                      delete ▼ │ subscribe
                            deleted

A request changes one unless it is older than its last change, by `iat`: so requests may come out of order.
An account is keyed in lower case: its capitals are a checksum.
"""

from enum import StrEnum

from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute, UnicodeSetAttribute
from pynamodb.models import Model

from clarion.networks.walletconnect.needs import SUBSCRIPTIONS
from clarion.tables import find_row

DELETED_SECONDS = 30 * 86_400
"""Longer than a request to subscribe or to update is good for."""


class NotifySubscriptionState(StrEnum):
    """A `deleted` one stays for `DELETED_SECONDS`, so that no older request brings it back."""

    ACTIVE = "active"
    DELETED = "deleted"


class NotifySubscription(Model):
    """`account_spelled` is the account as its wallet spells it, with the checksum. Instants are in UNIX seconds.

    `sym_key` opens and seals what goes by its `topic`. `scope` are the types it takes, None for none. `hash` is that of the
    token that subscribed or last updated it; `changed_iat` is that token's `iat`, or that of its end.
    `profile` and `identity_key` are those of that request: see `acts.Profile` and `did.key_did`. `end_reason` is what a
    wallet of the document's said when it left; `ttl` is of a deleted one.
    """

    class Meta:
        table_name = SUBSCRIPTIONS

    app = UnicodeAttribute(hash_key=True)
    account = UnicodeAttribute(range_key=True)
    subscription_id = UnicodeAttribute()
    account_spelled = UnicodeAttribute()
    sym_key = BinaryAttribute(legacy_encoding=False)
    topic = UnicodeAttribute()
    scope = UnicodeSetAttribute(null=True)
    state = UnicodeAttribute()
    hash = UnicodeAttribute()
    changed_iat = NumberAttribute()
    expiry = NumberAttribute()
    profile = UnicodeAttribute()
    identity_key = UnicodeAttribute()
    end_reason = UnicodeAttribute(null=True)
    ttl = NumberAttribute(null=True)

    @property
    def types(self) -> frozenset[str]:
        """The scope."""
        return frozenset(self.scope or ())

    @property
    def is_active(self) -> bool:
        return self.state == NotifySubscriptionState.ACTIVE

    def __repr__(self) -> str:
        return f"NotifySubscription({self.app}, {self.subscription_id})"


def account_key(account: str) -> str:
    """How an account is keyed, however it is spelled."""
    return account.lower()


def find_notify_subscription(app: str, account: str) -> NotifySubscription | None:
    """As it is now."""
    return find_row(NotifySubscription, app, account_key(account))
