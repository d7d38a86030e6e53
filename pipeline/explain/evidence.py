"""All that the lake has to judge some observations by, for each of the subscriptions that they concern."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID

from clarion.claims import LONGEST, lasts_until
from clarion.decisions import NotificationDecision
from clarion.events import LimitsLoaded, NotificationDecided, PushTried
from pipeline.explain.cases import Notified, ObservedReceipt, PossibleClaim, is_final
from pipeline.explain.in_force import RuleSpan, limits_at
from pipeline.explain.obstacles import QUEUED, in_order
from pipeline.terms import Terms


@dataclass
class LostSoFar:
    """What was judged to be lost, for what is judged after it: notifications by pair, and claims by claimant.

    A pair is `network, sender, client_id`, a claimant `envelope_id, subscription_id`.
    """

    by_pair: dict[tuple[str, bytes | None, bytes], list[Notified]] = field(default_factory=dict)
    by_claim: dict[tuple[bytes | None, UUID], list[PossibleClaim]] = field(default_factory=dict)

    def add(self, one: Notified) -> None:
        """Whoever gets the envelope later, by another receipt, has it in place of this one.

        If nothing was decided, the limit may have counted it, though its line is lost.
        """
        if one.found is None:
            self.by_pair.setdefault((one.observation.network, one.sender, one.client_id), []).append(one)
        claim = PossibleClaim(one.envelope_id, one.subscription_id, one.observation.receipt, None, one.decided_at)
        self.by_claim.setdefault((one.observation.envelope_id, one.subscription_id), []).append(claim)


@dataclass(frozen=True)
class Evidence:
    """`rules` are those that name one of the observations' keys, `notified` all that was decided about the envelopes.

    `claims` are those that snapshots have on them, `histories` the decisions about their clients shortly before and
    after, `replayed` what was sent again: receipt and subscription. `latest` is when something was last decided for
    anybody on a receipt within an hour of its observation, 0 if nothing was: see `compare.latest_decisions`.
    `others` are rules of whom the answer is not about: by them an envelope may have been matched.
    """

    rules: Sequence[RuleSpan]
    notified: Sequence[NotificationDecided]
    claims: Sequence[PossibleClaim]
    pushed: Sequence[PushTried]
    histories: Sequence[NotificationDecided]
    limits: Sequence[LimitsLoaded]
    replayed: Collection[tuple[UUID, UUID]]
    latest: Mapping[UUID, int]
    others: Sequence[RuleSpan] = ()

    def notifications(self, seen: ObservedReceipt, terms: Terms, lost: LostSoFar) -> Iterator[Notified]:
        """One for each subscription that was decided about, or whose rules may have named the envelope."""
        latest = self.latest.get(seen.receipt, 0)
        decided = {one.subscription_id: one for one in self._decisions if one.receipt == seen.receipt}
        until = {owner: one.at for owner, one in decided.items()}
        near = [
            span
            for span in self.naming(seen)
            if span.touches(
                seen.first_at, max(seen.last_at, until.get(span.subscription.subscription_id, latest)), terms.grace
            )
        ]
        rules = _grouped(near, lambda span: span.subscription.subscription_id)
        for owner in dict.fromkeys((*decided, *rules)):
            one = self._notified(seen, owner, rules.get(owner, []), decided.get(owner), terms=terms, lost=lost)
            yield replace(one, until=until.get(owner, latest))

    def _notified(  # noqa: PLR0913 - each by name
        self,
        seen: ObservedReceipt,
        subscription_id: UUID,
        rules: Sequence[RuleSpan],
        decision: NotificationDecided | None,
        *,
        terms: Terms,
        lost: LostSoFar,
    ) -> Notified:
        who = (seen.receipt, subscription_id)
        client = decision.client_id if decision else rules[0].subscription.client_id
        of_client = self._by_client.get(client, [])
        sender = decision.sender if decision else seen.sender
        pair = [one for one in of_client if (one.network, one.sender) == (seen.network, sender)]
        claimed = (seen.envelope_id, subscription_id)
        claims = [*self._by_claim.get(claimed, ()), *lost.by_claim.get(claimed, ())]
        return Notified(
            observation=seen,
            rules=rules,
            decision=decision,
            claims=[
                held
                for one in claims
                if one.receipt != seen.receipt
                for held in _held(one, seen, decision.at if decision else seen.last_at, terms.grace)
            ],
            earlier=before(pair, decision, seen.last_at),
            near=[one for one in of_client if one.subscription_id == subscription_id],
            pushes=self._by_push.get(who, []),
            limits=limits_at(
                self.limits, seen.network, decision.at if decision else seen.last_at, terms.grace_of_limits
            ),
            replayed=who in self.replayed,
            lost=[
                one
                for one in lost.by_pair.get((seen.network, sender, client), ())
                if one.observation.receipt != seen.receipt
            ],
            ended_elsewhere=any(
                is_final(push)
                for one in claims
                if one.receipt != seen.receipt
                for push in self._by_push.get((one.receipt, subscription_id), [])
            ),
        )

    def naming(self, seen: ObservedReceipt) -> list[RuleSpan]:
        """The rules that name one of its keys, whenever they were in force; the most specific key's first."""
        return [span for key in (seen.envelope.keys if seen.envelope else ()) for span in self._by_key.get(key, [])]

    def naming_for_anyone(self, seen: ObservedReceipt) -> list[RuleSpan]:
        """Also those of others."""
        keys = seen.envelope.keys if seen.envelope else ()
        return [*self.naming(seen), *(span for key in keys for span in self._others_by_key.get(key, []))]

    @cached_property
    def _others_by_key(self) -> dict[bytes, list[RuleSpan]]:
        return _grouped(self.others, lambda span: span.rule.key)

    @cached_property
    def _decisions(self) -> list[NotificationDecided]:
        return once(self.notified)

    @cached_property
    def _by_key(self) -> dict[bytes, list[RuleSpan]]:
        return _grouped(self.rules, lambda span: span.rule.key)

    @cached_property
    def _by_client(self) -> dict[bytes, list[NotificationDecided]]:
        return _grouped(once(self.histories), lambda one: one.client_id)

    @cached_property
    def _by_claim(self) -> dict[tuple[bytes | None, UUID], list[PossibleClaim]]:
        every = sorted((*self.claims, *map(PossibleClaim.of, self._decisions)), key=lambda one: one.at)
        return _grouped(every, lambda one: (one.envelope_id, one.subscription_id))

    @cached_property
    def _by_push(self) -> dict[tuple[UUID, UUID], list[PushTried]]:
        return _grouped(self.pushed, lambda one: (one.receipt, one.subscription_id))


def _held(claim: PossibleClaim, seen: ObservedReceipt, at: int, grace: int) -> Iterator[PossibleClaim]:
    """A claim as it counts at a time: where it ends about then, it excuses a duplicate, and forbids no push."""
    claimed_s = claim.at // 1000
    left = 1000 * (lasts_until(seen.envelope.expires_at, claimed_s) if seen.envelope else claimed_s + LONGEST) - at
    if left > grace:
        yield claim
    elif left > -grace:
        yield claim._replace(decision=NotificationDecision.RATE_LIMITED)


def once(decisions: Iterable[NotificationDecided]) -> list[NotificationDecided]:
    """One decision for each receipt and subscription, in order of time: what one line says was queued was queued."""
    queued_first = sorted(decisions, key=lambda one: (one.decision is not QUEUED, one.at))
    first = {(one.receipt, one.subscription_id): one for one in reversed(queued_first)}
    return sorted(first.values(), key=lambda one: one.at)


def before(
    pair: Sequence[NotificationDecided], decision: NotificationDecided | None, at: int
) -> list[NotificationDecided]:
    """A pair's decisions that came before one, in order; without a decision, those until `at`."""
    ordered = in_order(pair)
    if decision is None:
        return [one for one in ordered if one.at <= at]
    who = (decision.receipt, decision.subscription_id)
    places = [place for place, one in enumerate(ordered) if (one.receipt, one.subscription_id) == who]
    return ordered[: places[0]] if places else [one for one in ordered if one.at < decision.at]


def _grouped[One, Key: Hashable](every: Iterable[One], key: Callable[[One], Key]) -> dict[Key, list[One]]:
    groups: dict[Key, list[One]] = {}
    for one in every:
        groups.setdefault(key(one), []).append(one)
    return groups
