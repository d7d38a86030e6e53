"""Proof of possession: a code is pushed to a pending subscription's token, and its client hands it back.

The states that a subscription passes through: docs/architecture.md, "Data". A code is good for one subscription, one
token and one use. Nobody keeps it: the row has its SHA-256 and a random mask, the message the code XOR the mask, and
dispatch, which has both, puts the two together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest
from secrets import token_bytes
from typing import Any, Self
from uuid import UUID, uuid4

from pynamodb.expressions.condition import Condition

from clarion import base64url
from clarion.channels import CHANNELS, Channel
from clarion.decisions import Purpose, PushDecision, SubscriptionStatus, TokenProof, Wanted
from clarion.messages import PushMessage
from clarion.own_pushes import MaskedCode, VerificationBody
from clarion.tables import Subscription, update_subscription

PENDING_MS = 86_400_000
"""How long a subscription waits for its proof."""
CODE_BYTES = 32
CODE_SECONDS = 4 * 3600
ATTEMPTS = 5
"""At handing a code back."""
REPLACED = "replaced"
"""Why a subscription is invalid whose token another one has taken over."""
ATTRIBUTES = ("proof_hash", "proof_until", "proof_attempts", "proof_receipt", "proof_push", "proof_mask")
"""Of a subscription's row, about the code that was pushed last."""


def asked_for(policy: TokenProof, channel: Channel, *, taken: bool) -> bool:
    """Whether a token has to be proven; `taken` if another client has it, which under `never` keeps it."""
    if taken:
        return policy is not TokenProof.NEVER
    return policy is TokenProof.ALWAYS and CHANNELS[channel].always_proven


@dataclass(frozen=True, slots=True)
class ProofCode:
    """A code that is about to be pushed, with the receipt of that push; good until `until` (UNIX milliseconds)."""

    secret: bytes = field(repr=False)
    mask: bytes = field(repr=False)
    receipt: UUID
    until: int

    @classmethod
    def new(cls, now: int) -> Self:
        """`now` is in UNIX milliseconds."""
        return cls(token_bytes(CODE_BYTES), token_bytes(CODE_BYTES), uuid4(), now + CODE_SECONDS * 1000)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What the subscription's row knows of it."""
        values = (_hash(self.secret), self.until, 0, str(self.receipt), None, self.mask)
        return dict(zip(ATTRIBUTES, values, strict=True))

    def message(self, row: Subscription, now: int) -> PushMessage:
        return PushMessage(
            network=row.network,
            purpose=Purpose.VERIFICATION,
            receipt=self.receipt,
            observed_at=now,
            envelope_id=sha256(self.receipt.bytes).digest(),
            subscription_id=UUID(row.subscription_id),
            client_id=row.client_id,
            channel=Channel(row.channel),
            wanted=Wanted.BACKGROUND,
            expires_at=self.until // 1000,
            body=MaskedCode(masked=base64url.encode(_xor(self.secret, self.mask))),
        )


def unmasked(push: PushMessage, row: Subscription) -> PushMessage:
    """The push with the code that its app is to get; as it is if it is no verification."""
    if not isinstance(push.body, MaskedCode):
        return push
    code = base64url.encode(_xor(base64url.decode(push.body.masked), row.proof_mask))
    return push.model_copy(update={"body": VerificationBody(code=code)})


def expires_at(pending: Subscription) -> int:
    """UNIX milliseconds."""
    return int(pending.created_at) + PENDING_MS


def status_at(row: Subscription, now: int) -> SubscriptionStatus:
    """What a subscription is at `now` (UNIX milliseconds): a pending one may have expired without a write."""
    status = SubscriptionStatus(row.status)
    if status is SubscriptionStatus.PENDING and now >= expires_at(row):
        return SubscriptionStatus.EXPIRED
    return status


def is_right(row: Subscription, secret: bytes) -> bool:
    """Whether it is the code that was pushed last, compared in constant time."""
    return row.proof_hash is not None and compare_digest(row.proof_hash, _hash(secret))


def is_good(row: Subscription, now: int) -> bool:
    """Whether the code that was pushed last may still be handed back."""
    return row.proof_until is not None and now < row.proof_until and row.proof_attempts < ATTEMPTS


def count_attempt(subscription_id: str, client_id: bytes) -> Subscription | None:
    """The row, with one attempt more, in one write; None unless it is the client's, pending, and has attempts left."""
    possible = (Subscription.client_id == client_id) & (Subscription.proof_attempts < ATTEMPTS)
    attempt = Subscription.proof_attempts.add(1)
    return update_subscription(subscription_id, attempt, condition=possible & _pending())


def replace_code(row: Subscription, code: ProofCode) -> Subscription | None:
    """The row with another code; None if it is not pending any more, or has another token."""
    actions = Subscription.actions_of(code.attributes)
    return update_subscription(row.subscription_id, *actions, condition=_pending() & (Subscription.token == row.token))


def record_push(subscription_id: str, receipt: UUID, decision: PushDecision) -> None:
    """What became of a code's push, unless there is another code by now."""
    same = Subscription.proof_receipt == str(receipt)
    update_subscription(subscription_id, Subscription.proof_push.set(decision.value), condition=same)


def _pending() -> Condition:
    condition: Condition = Subscription.status == SubscriptionStatus.PENDING.value
    return condition


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _hash(secret: bytes) -> bytes:
    return sha256(secret).digest()
