"""Answer a request: gather what the lake has, judge it, and put the answer together."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from uuid import UUID

from clarion.decisions import NotificationDecision, Purpose
from clarion.events import NotificationDecided
from clarion.limiter import LATENESS, SKEW
from clarion.subscription_events import SubscriptionChanged
from pipeline.explain.cases import Notified, ObservedReceipt
from pipeline.explain.evidence import Evidence, LostSoFar
from pipeline.explain.explanation import Explanation, NotificationAnswer, ReceiptAnswer, lives_of
from pipeline.explain.in_force import RuleSpan, limit_history, rule_spans
from pipeline.explain.judgement import RIGHT, DecisionVerdict, judge_envelope, judge_notification
from pipeline.explain.known import Known
from pipeline.explain.trail import Trail, follow_envelope, follow_receipt, follow_subscriptions, observations
from pipeline.findings import REPAIRABLE
from pipeline.lake.lookup import Lookup
from pipeline.period import HOUR_MS, Period
from pipeline.terms import DEFAULT, Terms

MAX_SUBSCRIPTIONS = 1_000
"""Subscriptions of an envelope that are judged, unless `--client` is given."""


class NotOfClientError(Exception):
    """The subscription that is asked for is another client's."""


@dataclass(frozen=True)
class ExplainRequest:
    """What to explain: an envelope's id, or the UUID of a receipt or of a subscription; perhaps for one client alone.

    Of a subscription, what was observed in `period`; with nothing but a client, of all of its own.
    """

    asked: bytes | UUID | None
    period: Period
    client: bytes | None = None
    show: int = 20
    terms: Terms = DEFAULT
    oversize: str | None = None

    @property
    def arrived(self) -> Period:
        """What was observed in the period may arrive in the hour after it."""
        return Period(self.period.start, self.period.end + HOUR_MS)

    @property
    def text(self) -> str:
        asked = self.asked or self.client or b""
        return asked.hex() if isinstance(asked, bytes) else str(asked)


def explain(lookup: Lookup, request: ExplainRequest) -> Explanation:
    """Raises `NotOfClientError`."""
    known = Known(lookup, request.period.start, request.arrived.end)
    match request.asked:
        case bytes(envelope_id):
            return _of_envelope(lookup, request, "envelope", follow_envelope(lookup, envelope_id, request.arrived))
        case UUID() as asked if changes := known.subscriptions({asked}):
            if request.client not in {None, *(one.client_id for one in changes)}:
                raise NotOfClientError(f"subscription {asked} is not of client {(request.client or b'').hex()}")
            return _of_subscriptions(lookup, request, "subscription", known, changes)
        case UUID() as receipt:
            return _of_envelope(lookup, request, "receipt", follow_receipt(lookup, receipt, request.arrived))
        case None:
            own = known.subscriptions_of(request.client or b"")
            return _of_subscriptions(lookup, request, "client", known, own)


def _of_envelope(lookup: Lookup, request: ExplainRequest, what: str, trail: Trail) -> Explanation:
    known = Known(lookup, trail.began_at or request.period.start, request.arrived.end)
    seen = observations(trail, request.oversize)
    named = known.rules_naming({key for one in seen if one.envelope for key in one.envelope.keys})
    owners = {one.subscription_id for kind in (named, trail.notified) for one in kind}
    subscriptions = known.subscriptions(owners if request.client else _some(owners, trail))
    chosen = {one.subscription_id for one in subscriptions if request.client in {None, one.client_id}}
    chosen |= {one.subscription_id for one in trail.notified if request.client == one.client_id}
    spans = rule_spans(named, subscriptions)
    rules = [span for span in spans if span.subscription.subscription_id in chosen]
    others = [span for span in spans if span.subscription.subscription_id not in chosen]
    evidence = replace(gather(known, seen, trail.only(chosen), rules, trail.notified), others=others)
    receipts = _receipt_answers(seen, evidence, request, _lost_before(request, known, seen, evidence))
    answer = _answer(lookup, request, what if seen else None, seen, receipts)
    return replace(answer, notes=[*answer.notes, *_left_out(request, answer, len(owners) - len(chosen))])


def _left_out(request: ExplainRequest, answer: Explanation, others: int) -> Iterator[str]:
    if request.client and answer.found and not any(one.notifications for one in answer.receipts):
        yield f"No rule of client {request.client.hex()} named it, and nothing was decided for it."
    if others and not request.client:
        yield f"{others:,} other subscriptions are not judged: --client names one."


def _some(owners: set[UUID], trail: Trail) -> set[UUID]:
    """At most so many, first of all those of whom nothing was decided."""
    decided = {one.subscription_id for one in trail.notified}
    return set(sorted(owners, key=lambda owner: (owner in decided, owner))[:MAX_SUBSCRIPTIONS])


def _of_subscriptions(
    lookup: Lookup, request: ExplainRequest, what: str, known: Known, changes: Sequence[SubscriptionChanged]
) -> Explanation:
    """`changes` are all of one subscription, or of each of a client's."""
    owners = {one.subscription_id for one in changes}
    rules = rule_spans(known.rules_of(owners), changes)
    seen, evidence = _of_owners(request, known, owners, rules, request.period)
    evidence = replace(evidence, others=_of_others(known, seen, evidence))
    receipts = _receipt_answers(seen, evidence, request, LostSoFar())
    answer = _answer(lookup, request, what if owners else None, seen, receipts)
    return replace(answer, lives=lives_of(changes, rules), quiet=lookup.coverage.quiet(request.period))


def _of_others(known: Known, seen: Sequence[ObservedReceipt], evidence: Evidence) -> list[RuleSpan]:
    """The rules of others by which an envelope may have been matched while none of a subscription's own was in force."""
    left = [
        one.envelope
        for one in seen
        if one.envelope and not any(span.touches(one.first_at, one.last_at, 0) for span in evidence.naming(one))
    ]
    named = known.rules_naming({key for envelope in left for key in envelope.keys}) if left else []
    mine = {span.subscription.subscription_id for span in evidence.rules}
    others = [one for one in named if one.subscription_id not in mine]
    return rule_spans(others, known.subscriptions({one.subscription_id for one in others})) if others else []


def _of_owners(
    request: ExplainRequest, known: Known, owners: Collection[UUID], rules: Sequence[RuleSpan], period: Period
) -> tuple[list[ObservedReceipt], Evidence]:
    """What was observed in a period of these subscriptions' rules, and all that it is judged by."""
    arrived = Period(period.start, period.end + HOUR_MS)
    trail = follow_subscriptions(known.lookup, owners, {span.rule.key for span in rules}, arrived)
    observed = observations(trail, request.oversize)
    seen = [one for one in observed if period.start <= one.observed_at < period.end]
    others = known.lookup.find(NotificationDecided, "receipt", _undecided(seen, trail, rules), arrived)
    return seen, gather(known, seen, trail, rules, [*trail.notified, *others])


def _lost_before(
    request: ExplainRequest, known: Known, seen: Sequence[ObservedReceipt], evidence: Evidence
) -> LostSoFar:
    """Where a limit seems to be wrong, it may have counted what of the same pair is lost: of the time that it looks back."""
    lost, trial = LostSoFar(), LostSoFar()
    last = max((one.observed_at for one in seen), default=0)
    doubtful = {
        one.subscription_id
        for each in seen
        for one, verdict in judge_all(each, evidence, request.terms, trial)
        if verdict.found in REPAIRABLE and one.found in {None, NotificationDecision.RATE_LIMITED}
    }
    if not doubtful:
        return lost
    period = Period(last - SKEW - limit_history(evidence.limits).reach, last + SKEW)
    then = Known(known.lookup, period.start, known.until)
    rules = rule_spans(then.rules_of(doubtful), then.subscriptions(doubtful))
    others, theirs = _of_owners(request, then, doubtful, rules, period)
    known_already = {one.receipt for one in seen}
    of_theirs = LostSoFar()
    for each in others:
        for one, verdict in judge_all(each, theirs, request.terms, of_theirs):
            if verdict.found in REPAIRABLE and one.found is None and each.receipt not in known_already:
                lost.add(one)
    return lost


def _undecided(seen: Sequence[ObservedReceipt], trail: Trail, rules: Sequence[RuleSpan]) -> set[UUID]:
    """The receipts of which there is no decision for a subscription whose rule names them."""
    decided = {(one.receipt, one.subscription_id) for one in trail.notified}
    naming = {(span.rule.key, span.subscription.subscription_id) for span in rules}
    return {
        one.receipt
        for one in seen
        for key, owner in naming
        if one.envelope and key in one.envelope.keys and (one.receipt, owner) not in decided
    }


def _answer(
    lookup: Lookup,
    request: ExplainRequest,
    what: str | None,
    seen: Sequence[ObservedReceipt],
    receipts: list[ReceiptAnswer],
) -> Explanation:
    """Of a subscription's envelopes, those with a difference come first, and the latest of the others."""
    wrong = [one for one in receipts if any(each.verdict.is_difference for each in one.notifications)]
    fine = [one for one in receipts if one not in wrong]
    shown = [*wrong, *fine[::-1]][: request.show] if what in {"subscription", "client"} else receipts
    return Explanation(
        request.text if what else None,
        what,
        request.period,
        pending=list(lookup.coverage.pending(request.arrived)),
        absent=lookup.coverage.absent(_around(seen, request) if what in {"envelope", "receipt"} else request.period),
        receipts=shown,
        notes=list(_notes(receipts, shown)),
        doubts=list(_doubts(lookup, request, what, seen, receipts)),
    )


def _around(seen: Sequence[ObservedReceipt], request: ExplainRequest) -> Period:
    """The hours before and after all that was seen; where nothing was, all that is asked for."""
    times = [at for one in seen for at in (one.observed_at, one.last_at)]
    if not times:
        return request.period
    return Period(min(times) - HOUR_MS, min(max(times) + HOUR_MS, request.arrived.end))


def _doubts(
    lookup: Lookup,
    request: ExplainRequest,
    what: str | None,
    seen: Sequence[ObservedReceipt],
    receipts: Sequence[ReceiptAnswer],
) -> Iterator[str]:
    """Of an envelope that all have got who wanted it, what was lost long before or after says nothing."""
    times = [at for one in seen for at in (one.observed_at, one.last_at)]
    before = lookup.coverage.doubts_before(request.period.start)
    if not times:
        return chain(before, lookup.doubts(request.arrived))
    near = _around(seen, request)
    verdicts = [verdict for one in receipts for verdict in (one.verdict, *(each.verdict for each in one.notifications))]
    right = all(verdict.found == RIGHT for verdict in verdicts)
    is_whole = right and all(one.notifications for one in receipts)
    if what in {"envelope", "receipt"} and is_whole:
        return lookup.doubts(Period(near.start, max(times) + 1))
    return chain(before, lookup.doubts(request.arrived, None if right else near))


def _receipt_answers(
    seen: Sequence[ObservedReceipt], evidence: Evidence, request: ExplainRequest, lost: LostSoFar
) -> list[ReceiptAnswer]:
    answers = []
    for each in seen:
        judged = [NotificationAnswer.of(*one) for one in judge_all(each, evidence, request.terms, lost)]
        rules, notified = evidence.naming_for_anyone(each), each.receipt in evidence.latest
        verdict = judge_envelope(each, rules, request.terms, notified=notified)
        answers.append(ReceiptAnswer.of(each, verdict, judged, request.show))
    return answers


def judge_all(
    seen: ObservedReceipt, evidence: Evidence, terms: Terms, lost: LostSoFar
) -> Iterator[tuple[Notified, DecisionVerdict]]:
    """One observation for each subscription, by what was `lost` before it; what of it is lost is added.

    So the observations of an envelope have to be judged in their order.
    """
    for one in evidence.notifications(seen, terms, lost):
        verdict = judge_notification(one, terms)
        if verdict.found in REPAIRABLE:
            lost.add(one)
        yield one, verdict


def gather(
    known: Known,
    seen: Sequence[ObservedReceipt],
    trail: Trail,
    rules: Sequence[RuleSpan],
    decided: Sequence[NotificationDecided],
) -> Evidence:
    """All that the observations of a trail are judged by; `rules` are those that name one of their keys.

    `decided` is all that was decided on them, for whomever.
    """
    clients = {one.client_id for one in trail.notified} | {span.subscription.client_id for span in rules}
    times = [at for one in seen for at in (one.observed_at, one.last_at)] or [known.since]
    limits = known.limits()
    near = Period(min(times) - max(HOUR_MS, SKEW + limit_history(limits).reach), max(times) + HOUR_MS)
    return Evidence(
        rules=rules,
        notified=trail.notified,
        claims=known.claims({one.envelope_id for one in seen if one.envelope_id}),
        pushed=[one for one in trail.pushed if one.purpose is Purpose.NOTIFICATION],
        histories=known.lookup.find(NotificationDecided, "client_id", clients, near),
        limits=limits,
        replayed=known.lookup.replayed({one.receipt for one in seen}, min(times) - HOUR_MS),
        latest=_latest(seen, decided),
    )


def _latest(seen: Sequence[ObservedReceipt], decided: Sequence[NotificationDecided]) -> dict[UUID, int]:
    """As `compare.with_latest` has `soon_at`, of each receipt that something was decided by."""
    last = {one.receipt: one.last_at for one in seen}
    latest = {one.receipt: one.at for one in sorted(decided, key=lambda one: one.at)}
    soon = [one for one in decided if one.judged_at is not None and one.judged_at > one.at - LATENESS]
    known = dict.fromkeys(latest, 0) | {one.receipt: one.at for one in sorted(soon, key=lambda one: one.at)}
    return {receipt: at if at < last.get(receipt, 0) + LATENESS else known[receipt] for receipt, at in latest.items()}


def _notes(receipts: Sequence[ReceiptAnswer], shown: Sequence[ReceiptAnswer]) -> Iterator[str]:
    counts = Counter(each.verdict.found for one in receipts for each in one.notifications)
    if counts:
        yield ", ".join(f"{count:,} {found}" for found, count in counts.most_common()) + " in all."
    if len(shown) < len(receipts):
        yield f"{len(receipts) - len(shown):,} more envelopes are not shown: --show has more."
