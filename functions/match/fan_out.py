"""An envelope that many subscriptions want, page by page.

They are taken in the order of their ids, a page in one invocation. The invocation that takes the first page sends the
rest on its way in legs, which share what is left of the ids and run side by side; each message of a leg takes one
page and sends the next. All these messages go through a queue of their own, whose consumer bounds how many run at once:
no crowd takes the workers and the tables' throughput from everybody else.

    envelopes ──▶ first look ── page ──┬─▶ pages ──▶ page ──▶ pages ──▶ page ──▶ …
                                       ├─▶ pages ──▶ page ──▶ …
                                       └─▶ …

A page's pushes are queued before its successor is sent, so a crash repeats one page and loses none. It may send a
successor twice, too: the two carry different tokens, and only the one whose token locks the page goes on.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import NamedTuple
from uuid import uuid4

from clarion.claims import lasts_until
from clarion.messages import EnvelopeMessage, PageMessage, RepetitionMessage, Span
from clarion.networks import Envelope
from clarion.tables import PageLock
from match.matching import Candidate, Candidates
from match.rule_reader import FoundRules

FannedOut = EnvelopeMessage | RepetitionMessage | PageMessage
"""The messages for whoever has a rule; the others name the subscriptions that they are for."""
EVERYTHING = Span(after="", until="~")
"""Ids are UUIDs in lower-case hex digits, which all come before `~`."""
PAGES_OF_A_LEG = 4
"""About as many; more where there are more pages than bytes."""
_BOUNDS = [f"{first_byte:02x}" for first_byte in range(1, 256)]
"""Where a leg may end. UUIDs are spread evenly, so between two of these lie about as many as between any others."""


class Page(NamedTuple):
    """The rules of the subscriptions in a `span`, by key; what is left is the `rest`.

    A key has still more rules than were read, of which all up to the subscription `known_to` were.
    """

    candidates: Mapping[bytes, list[Candidate]]
    span: Span
    rest: Span | None = None
    known_to: str | None = None

    @property
    def subscription_ids(self) -> set[str]:
        return {candidate.subscription_id for of_key in self.candidates.values() for candidate in of_key}

    def covers(self, subscription_id: str) -> bool:
        return self.span.after < subscription_id <= self.span.until


def cut(found: Mapping[bytes, FoundRules], span: Span, size: int, named: Collection[str] = ()) -> Page:
    """The first subscriptions in `span`, at most `size`, that are `named` or of which the rules for every key are found."""
    page = Page({key: some.candidates for key, some in found.items()}, span)
    known_to = min((some.candidates[-1].subscription_id for some in found.values() if some.more), default=None)
    ids = sorted(page.subscription_ids | set(filter(page.covers, named)))
    if known_to is None and len(ids) <= size:
        return page
    known = [name for name in ids if known_to is None or name <= known_to]
    ends_at = known[:size][-1] if size else span.after
    return Page(
        _until(ends_at, page.candidates),
        Span(after=span.after, until=ends_at),
        rest=Span(after=ends_at, until=span.until),
        known_to=known_to,
    )


def _until(ends_at: str, candidates: Candidates) -> dict[bytes, list[Candidate]]:
    return {key: [one for one in of_key if one.subscription_id <= ends_at] for key, of_key in candidates.items()}


def successors(message: FannedOut, page: Page) -> list[PageMessage]:
    """The messages that take what comes after `page`: of a leg its next page, at the first look maybe legs."""
    if page.rest is None:
        return []
    if isinstance(message, PageMessage):
        return [_page_message(message, page.rest)]
    return [_page_message(message, leg) for leg in _legs(page.rest, page.known_to)]


def _legs(rest: Span, known_to: str | None) -> list[Span]:
    """Each spans `PAGES_OF_A_LEG` times the ids that one page did, so that the larger a crowd, the more there are."""
    if known_to is None:
        return [rest]
    step = PAGES_OF_A_LEG * (1 + bisect_right(_BOUNDS, known_to))
    ends = [bound for bound in _BOUNDS[step - 1 :: step] if bound > rest.after]
    return [Span(after=after, until=until) for after, until in pairwise([rest.after, *ends, rest.until])]


def _page_message(message: FannedOut, span: Span) -> PageMessage:
    return PageMessage(
        **message.observation,
        span=span,
        page=message.page + 1 if isinstance(message, PageMessage) else 1,
        token=uuid4(),
        changed=message.changed,
        repeat_id=None if isinstance(message, EnvelopeMessage) else message.repeat_id,
    )


def page_lock(message: PageMessage, envelope: Envelope, now: int) -> PageLock:
    """What a message takes before its page. `now` is in UNIX milliseconds.

    A page that is repeated after a change of rules may end elsewhere, so that its successor begins elsewhere: so the
    span is part of the name.
    """
    span = message.span
    return PageLock(
        f"page/{message.repeat_id or message.receipt}/{span.after}/{span.until}/{message.page}",
        envelope.id,
        token=str(message.token),
        ttl=lasts_until(envelope.expires_at, now // 1000),
    )
