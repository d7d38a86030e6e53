"""Listing a client's subscriptions with their rules, by pages, whatever the network."""

from collections.abc import Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any, NamedTuple, Self
from uuid import UUID

from aws_lambda_powertools.event_handler import Response

from api.openapi import Headers
from api.problems import Problem, ProblemKind, contended
from api.worker import ClientRequest
from clarion import base64url, subscriptions
from clarion.networks import network
from clarion.rulesets import Owner, RuleSet, Unchanged
from clarion.tables import Subscription

UUID_BYTES, REVISION_BYTES = 16, 8
NEXT_PAGE: Headers = {
    "Link": {"description": 'The next page, `<…>; rel="next"`, if there is one.', "schema": {"type": "string"}}
}


class Cursor(NamedTuple):
    """Where a page begins: at a subscription, and within it after a rule, as long as the rules are those of `revision`.

    Its text is base64url without padding, of a UUID, a revision (8 bytes) and the rule's key but for the network's
    number, with which the keys of a network all begin.
    """

    subscription_id: str
    revision: int | None = None
    after: bytes | None = None

    def __str__(self) -> str:
        raw = UUID(self.subscription_id).bytes
        if self.revision is not None and self.after is not None:
            raw += self.revision.to_bytes(REVISION_BYTES) + self.after[1:]
        return base64url.encode(raw)

    @classmethod
    def parse(cls, text: str, network_name: str) -> Self:
        """Undo `str`, for a text of the right length and alphabet."""
        raw = base64url.decode(text)
        subscription_id = str(UUID(bytes=raw[:UUID_BYTES]))
        if len(raw) == UUID_BYTES:
            return cls(subscription_id)
        revision, after = raw[UUID_BYTES : UUID_BYTES + REVISION_BYTES], raw[UUID_BYTES + REVISION_BYTES :]
        return cls(subscription_id, int.from_bytes(revision), bytes([network(network_name).number]) + after)


class ListedSubscription(NamedTuple):
    """Some of a subscription's rules, and whether there are more after them."""

    row: Subscription
    rules: RuleSet
    more: bool


class ListingPage(NamedTuple):
    """Subscriptions with as many rules as fit, and where the next page begins."""

    listed: Sequence[ListedSubscription]
    following: Cursor | None = None


def page(request: ClientRequest, owner: Owner, begin: Cursor | None) -> ListingPage:
    """The owner's subscriptions from `begin` on, with at most `rules_per_page` rules together."""
    left, listed = request.worker.settings.rules_per_page, list[ListedSubscription]()
    for subscription_id in (row.subscription_id for row in subscriptions.of_owner(owner)):
        if begin and subscription_id < begin.subscription_id:
            continue
        if left == 0:
            return ListingPage(listed, Cursor(subscription_id))
        here = begin if begin and subscription_id == begin.subscription_id else Cursor(subscription_id)
        one = _listed(request, owner, here, left)
        if one is None:
            continue
        listed.append(one)
        if one.more:
            return ListingPage(listed, Cursor(subscription_id, int(one.row.revision), next(reversed(one.rules))))
        left -= len(one.rules)
    return ListingPage(listed)


def answer(path: str, shapes: bytes, following: Cursor | None) -> Response[Any]:
    """A page in JSON, whose next one is at the same path."""
    link = {"Link": f'<{path}?cursor={following}>; rel="next"'} if following else {}
    return Response(status_code=HTTPStatus.OK, content_type="application/json", headers=link, body=shapes.decode())


def _listed(request: ClientRequest, owner: Owner, here: Cursor, limit: int) -> ListedSubscription | None:
    """None if the subscription has meanwhile gone."""
    rule_sets = request.worker.rule_sets
    found = rule_sets.read(here.subscription_id, owner, after=here.after, limit=limit + 1, until=request.until)
    match found:
        case Unchanged.NOT_FOUND:
            return None
        case Unchanged():
            raise contended()
        case row, rules:
            if here.revision is not None and here.revision != row.revision:
                raise Problem(ProblemKind.RULES_CHANGED, "begin again without a cursor")
            return ListedSubscription(row, dict(islice(rules.items(), limit)), more=len(rules) > limit)
