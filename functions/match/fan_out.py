"""A statement that many subscriptions want, page by page.

They are taken in the order of their ids, a page in one invocation. Whoever takes the first page sends the
rest on its way in legs, which share what is left of the ids and run side by side; each message of a leg takes one
page and sends the next.

    first look ── page ──┬─▶ leg up to 1 ── page ──▶ page ──▶ page
                         ├─▶ leg up to 2 ── page ──▶ page
                         └─▶ …

A page's pushes are queued before its successor is sent, so a crash repeats one page and loses none. It may send a
successor twice, too: the two carry different tokens, and only the one whose token claims the page goes on.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID, uuid4

from clarion.messages import Span, EnvelopeMessage
from clarion.tables import PushRecord
from match.claims import lasts_until
from match.faults import Unreadable
from match.matching import Wish
from match.verdict import Verified

EVERYTHING = Span(after="", until="~", page=0, token=UUID(int=0))
"""Ids are UUIDs in lower-case hex digits, which all come before `~`."""
_BOUNDS = "48c~"
"""UUIDs are spread evenly, so legs that end here are of about the same length. Few, so that one crowd does not take the
sandboxes and the tables' throughput from everybody else."""


class Found(NamedTuple):
    """Rules in the order of their subscriptions; those of the last one are all there, even if there are `more`.

    `unreadable` names the subscriptions of rules that can't be read.
    """

    wishes: list[Wish]
    more: bool
    unreadable: Mapping[str, Unreadable] = MappingProxyType({})


class Page(NamedTuple):
    """The rules of some subscriptions, by topic. More begin after `ends_at`; enough for legs if it is `wide`."""

    wishes: dict[bytes, list[Wish]]
    ends_at: str | None = None
    wide: bool = False

    @property
    def subscription_ids(self) -> set[str]:
        return {wish.subscription_id for wishes in self.wishes.values() for wish in wishes}

    def reaches(self, subscription_id: str) -> bool:
        return self.ends_at is None or subscription_id <= self.ends_at

    def until(self, ends_at: str, *, wide: bool) -> "Page":
        upto = {
            topic: [wish for wish in some if wish.subscription_id <= ends_at] for topic, some in self.wishes.items()
        }
        return Page(upto, ends_at, wide)


def cut(found: Mapping[bytes, Found], span: Span | None, room: int) -> Page:
    """The first subscriptions, at most `room`, of which the rules for every topic have been found."""
    page = Page({topic: some.wishes for topic, some in found.items()})
    known_to = min((some.wishes[-1].subscription_id for some in found.values() if some.more), default=None)
    ids = sorted(page.subscription_ids)
    if known_to is None and len(ids) <= room:
        return page
    known = [name for name in ids if known_to is None or name <= known_to]
    begins_after = span.after if span else EVERYTHING.after
    ends_at = known[:room][-1] if room else begins_after
    return page.until(ends_at, wide=known_to is not None)


def successors(message: EnvelopeMessage, page: Page) -> Iterator[EnvelopeMessage]:
    """The messages that take what comes after `page`: of a leg its next page, at the first look maybe legs."""
    if page.ends_at is None:
        return
    span = message.span or EVERYTHING
    legs = page.wide and not message.span
    bounds = [bound for bound in _BOUNDS if bound > page.ends_at] if legs else [span.until]
    for after, until in pairwise([page.ends_at, *bounds]):
        rest = Span(after=after, until=until, page=span.page + 1, token=uuid4())
        yield message.model_copy(update={"span": rest})


def page_record(message: EnvelopeMessage, verified: Verified, now: int) -> PushRecord:
    """The claim of a message on its page, under a key that no subscription has. `now` is UNIX milliseconds.

    A page that is repeated after a change of rules may end elsewhere, so that its successor begins elsewhere.
    """
    span = message.span or EVERYTHING
    return PushRecord(
        f"page/{message.repeat_id or message.receipt}/{span.after}/{span.until}/{span.page}",
        verified.hash,
        receipt=str(span.token),
        sender=verified.sender,
        topic=b"",
        claimed_at=now,
        ttl=lasts_until(verified.statement.expires_at, now // 1000),
    )
