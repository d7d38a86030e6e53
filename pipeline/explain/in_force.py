"""Which rules and limits were in force at a time: for a few subscriptions, from their events.

`pipeline.in_force.rules` says the same of all rules at once, by Spark.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from clarion.events import LimitsLoaded
from clarion.networks import NETWORKS, Rule, network, statuses_in_force
from clarion.subscription_events import RuleRef, RulesChanged, SubscriptionChanged
from pipeline.in_force.limits import LimitHistory, LimitSpan, spans_of
from pipeline.period import FOREVER

if TYPE_CHECKING:
    from uuid import UUID


class RuleSpan(NamedTuple):
    """A rule of a subscription, in force from `since` up to but without `until`; instants are UNIX milliseconds.

    `subscription` is what that was at the beginning.
    """

    subscription: SubscriptionChanged
    rule: RuleRef
    since: int
    until: int

    @property
    def described(self) -> str:
        """What its network says of the rule."""
        rule = Rule(self.rule.key, self.rule.condition or b"")
        return ", ".join(f"{name} {value}" for name, value in network(self.subscription.network).describe(rule).items())

    def touches(self, first: int, last: int, grace: int) -> bool:
        """Whether it may have been in force for a decision that was taken between these two times."""
        return self.since < last + grace and self.until > first - grace

    def covers(self, first: int, last: int, grace: int) -> bool:
        """Whether it surely was."""
        return self.since <= first - grace and self.until > last + grace


def rule_spans(rules: Iterable[RulesChanged], subscriptions: Iterable[SubscriptionChanged]) -> list[RuleSpan]:
    """A rule counts while its subscription has its generation, and a status in which rules are in force."""
    counting: dict[tuple[UUID, int], list[tuple[SubscriptionChanged, int]]] = {}
    for _, changes in _grouped(subscriptions, lambda change: change.subscription_id):
        in_order = sorted(changes, key=_place)
        for change, until in zip(in_order, _next_times(in_order), strict=True):
            if change.status in statuses_in_force(change.network):
                counting.setdefault((change.subscription_id, change.generation), []).append((change, until))
    spans = [
        RuleSpan(subscription, rule, max(change.at, subscription.at), min(until, ended))
        for change, rule, until in _added(rules)
        for subscription, ended in counting.get((change.subscription_id, change.generation), ())
    ]
    return _without_seams(span for span in spans if span.since < span.until)


def _without_seams(spans: Iterable[RuleSpan]) -> list[RuleSpan]:
    """As `pipeline.in_force.rules.without_seams`."""
    of_rules: dict[object, list[RuleSpan]] = {}
    for span in sorted(spans, key=lambda span: (span.since, span.until)):
        of = span.subscription
        joined = of_rules.setdefault((of.subscription_id, of.client_id, of.channel, span.rule), [])
        if joined and span.since <= joined[-1].until:
            joined[-1] = joined[-1]._replace(until=max(joined[-1].until, span.until))
        else:
            joined.append(span)
    return [span for joined in of_rules.values() for span in joined]


def limits_at(loaded: Iterable[LimitsLoaded], name: str, at: int, grace: int) -> list[LimitSpan]:
    """Those that a network may have had at a time: different ones only next to a change."""
    spans = spans_of(name, (dict(one) for one in loaded if one.network == name))
    return list({(span.limit, span.cap): span for span in spans if span.is_near(at, grace)}.values())


def limit_history(loaded: Iterable[LimitsLoaded], grace: int = 0) -> LimitHistory:
    lines = [dict(one) for one in loaded]
    return LimitHistory(
        {name: spans_of(name, (line for line in lines if line["network"] == name)) for name in NETWORKS}, grace
    )


def _added(rules: Iterable[RulesChanged]) -> Iterator[tuple[RulesChanged, RuleRef, int]]:
    """Each rule that was added, or given another condition, with when that was changed next."""
    each = ((change, rule) for change in rules for rule in change.rules)
    for _, same_rule in _grouped(each, lambda one: (one[0].subscription_id, one[0].generation, one[1].key)):
        in_order = sorted(same_rule, key=lambda one: (one[0].revision, one[0].at, one[0].change))
        for (change, rule), until in zip(in_order, _next_times([change for change, _ in in_order]), strict=True):
            if change.change == "added":
                yield change, rule, until


def _next_times(in_order: Sequence[RulesChanged | SubscriptionChanged]) -> list[int]:
    return [*(one.at for one in in_order[1:]), FOREVER]


def _place(change: SubscriptionChanged) -> tuple[int, int, int, bool]:
    """Revisions order what clocks can't; changes of one revision go by their time, and a removal is the last one."""
    return change.revision, change.at, change.generation, change.status == "removed"


def _grouped[One](every: Iterable[One], key: Callable[[One], Any]) -> Iterator[tuple[Any, list[One]]]:
    for name, some in groupby(sorted(every, key=key), key=key):
        yield name, list(some)
