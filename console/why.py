"""`clarion why --envelope ID`: everything that became of one envelope, with times."""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, ClassVar, override
from uuid import UUID

import boto3
from botocore.config import Config
from rich.console import Group
from rich.table import Table
from rich.text import Text

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import EnvelopeDecided, EnvelopeObserved, NotificationDecided, PushTried
from clarion.networks import Rule, network
from console import explain
from console.deployment import Deployment
from console.lake import READERS, Lake
from console.output import Report, ago, clock, progress, table
from console.tracks import TracedEvent, Tracks, follow, observed_at

OBSERVED = "observed"
WIDTHS = (23, 7, len(EnvelopeDecision.UNSUPPORTED_PROOF))
"""Of the columns, so that one table stands below the other."""

MEANING = {
    EnvelopeDecision.MALFORMED: "its bytes are nothing that the network may show, so it was dropped",
    EnvelopeDecision.UNSUPPORTED_PROOF: "it is signed in a way that Clarion does not verify, so it was dropped",
    EnvelopeDecision.EXPIRED: "it had expired when it was decided, so it was dropped",
    EnvelopeDecision.BAD_SIGNATURE: "its signature does not verify, so it was dropped",
    EnvelopeDecision.UNMATCHED: "no active subscription had a rule for one of its keys",
    NotificationDecision.RATE_LIMITED: "the sender had reached this receiver too often within a minute",
    NotificationDecision.CAPPED: "this subscription had been sent too much within a minute, by all senders together",
    NotificationDecision.OWN_MESSAGE: "the receiver sent it himself, from one of his devices",
    NotificationDecision.NOT_PUSHABLE: "its sender marked it as not worth a push",
    NotificationDecision.NOT_IN_SCOPE: "the subscription does not ask for this kind of message",
    NotificationDecision.DUPLICATE: "another receipt had claimed it for this subscription before",
    PushDecision.DELIVERED: "the provider took the push; what becomes of it on the phone, Clarion does not learn",
    PushDecision.RECEIVED: "the receiver says that it has it",
    PushDecision.TOKEN_GONE: "the provider says that the token is dead; the device has to register again",
    PushDecision.SUBSCRIPTION_GONE: "the subscription was removed, or its token died, before the push was sent",
    PushDecision.COALESCED: "another push of the same subscription brought what this one was about",
    PushDecision.STALE: "the push came too late to be of use: a call after 30 s, an expired envelope, or nothing left to send",
    PushDecision.RETRY: "it rests in its queue until the next attempt",
    PushDecision.REFUSED: "the provider will never take this push, or dispatch gave it up: it is among the dead letters",
    PushDecision.MISCONFIGURED: "the provider rejects our credential or app, not the push: it waits until key or app is set right",
}
OWN = "an own message, which the app has delivered"
"""Of a notification that is no `own_message`, although the receiver sent it himself."""
UNDECIDED = "not decided yet: it waits in the queue, or is a dead letter, as clarion status shows"
UNTRIED = "not tried yet, or not yet in the lake: clarion status shows its queue"

NOTHING = (
    "nobody's rules name one of its keys: ingest drops such an envelope, and records nothing",
    "the lake gets its events with a delay: Firehose buffers for a minute or so",
    "it was observed before the period that was searched: look further back with --since or --from",
    "it never reached Clarion: is ingest connected, and is the id right (of a statement: BLAKE2b-256 of the whole encoding)?",
)


class Step(Report):
    """One thing that happened. `after_ms` counts from when the envelope was observed."""

    at: datetime
    after_ms: int
    what: str
    subscription_id: UUID | None = None
    client_id: str | None = None
    channel: Channel | None = None
    rule: str | None = None
    attempt: int | None = None
    status: int | None = None
    reason: str | None = None
    provider_id: str | None = None

    @property
    def detail(self) -> str:
        details = {
            "rule": self.rule,
            "attempt": self.attempt,
            "status": self.status,
            "reason": self.reason,
            "provider's id": self.provider_id,
        }
        return ", ".join(f"{name} {value}" for name, value in details.items() if value is not None)


class Trace(Report):
    """What came of one observation: the envelope's own steps, then those of each subscription."""

    receipt: UUID
    sender: str | None
    steps: list[Step]

    def shown(self) -> Iterator[Text | Table]:
        sender = f", sender {self.sender}" if self.sender else ""
        yield Text(f"Receipt {self.receipt}{sender}", "bold")
        for subscription_id, some in groupby(self.steps, key=lambda step: step.subscription_id):
            steps = list(some)
            if subscription_id:
                yield Text(f"\n{_receiver(steps)}", "bold")
            yield _table(steps)


def _table(steps: Iterable[Step]) -> Table:
    made = table(None, "time (UTC)", "after", "what", "detail")
    for column, width in zip(made.columns, WIDTHS, strict=False):
        column.min_width = width
    for step in steps:
        made.add_row(clock(step.at), ago(step.after_ms / 1000), Text(step.what, _style(step.what)), step.detail)
    return made


class Why(Report):
    """`envelope_id` is absent if the lake doesn't know it: then it may be anything, such as one of Apple's tokens."""

    envelope_id: str | None
    since: datetime
    until: datetime
    files: int
    traces: list[Trace]
    summary: list[str]

    def __rich__(self) -> Group:
        head = Text(f"Envelope 0x{self.envelope_id}" if self.envelope_id else "No trace", "bold")
        traces = [part for trace in self.traces for part in (*trace.shown(), "")]
        searched = f"Searched {self.files:,} files of the lake, {self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} UTC."
        return Group(head, "", *traces, *self.summary, Text(searched, "dim"))


class Untraced(Why):
    """`command` looks further back; `explained` is what it says if it could be run: text, or its JSON."""

    wrapped: ClassVar = False
    command: str
    explained: Any

    @override
    def __rich__(self) -> Group:
        hint = f"The pipeline judges it from all that the lake has, and looks further back:\n  {self.command}"
        return Group(super().__rich__(), "", self.explained or hint)


def look_further(here: Deployment, found: Why, words: list[str], *, as_json: bool) -> Untraced:
    """Where the stream's lines of the period have no trace, the pipeline's `explain` may find one."""
    said = explain.run(here, [*words, "--json"] if as_json else words)
    explained = json.loads(said) if said and as_json else said
    return Untraced(**dict(found), command=explain.shown(words), explained=explained)


def ask(here: Deployment, envelope_id: bytes, client: bytes | None, since: datetime, until: datetime) -> Why:
    s3 = boto3.client("s3", config=Config(max_pool_connections=READERS))
    with progress("reading the lake") as shown:
        tracks = follow(Lake(s3, here.lake), envelope_id, since, until, shown)
    return report(tracks, client, since, until)


def report(tracks: Tracks, client: bytes | None, since: datetime, until: datetime) -> Why:
    traces = list(_traces(tracks.records, client))
    return Why(
        envelope_id=tracks.envelope_id.hex() if traces else None,
        since=max(since, tracks.back_to) if tracks.back_to else since,
        until=until,
        files=tracks.files,
        traces=traces,
        summary=list(_summary(tracks, traces, client)),
    )


def _traces(record: Iterable[TracedEvent], client: bytes | None) -> Iterator[Trace]:
    """By receipt, in the order in which the envelope was observed."""
    every = list(record)
    clients = {one.subscription_id: one.client_id for one in every if isinstance(one, NotificationDecided)}
    receipts = dict.fromkeys(one.receipt for one in every)
    for receipt in receipts:
        mine = [one for one in every if one.receipt == receipt]
        began = min((at for one in mine if (at := observed_at(one)) is not None), default=mine[0].at)
        concerned = [one for one in mine if client is None or _client(one, clients) in {None, client}]
        steps = sorted((_step(one, began, clients) for one in concerned), key=_place)
        senders = (one.sender for one in mine if isinstance(one, EnvelopeDecided | NotificationDecided))
        sender = next((sender for sender in senders if sender), None)
        yield Trace(receipt=receipt, sender=sender.hex() if sender else None, steps=steps)


def _client(record: TracedEvent, clients: dict[UUID, bytes]) -> bytes | None:
    """Whom it concerns; None for what concerns the envelope itself."""
    if isinstance(record, NotificationDecided | PushTried):
        return clients.get(record.subscription_id, b"")
    return None


def _step(record: TracedEvent, began: int, clients: dict[UUID, bytes]) -> Step:
    match record:
        case EnvelopeObserved():
            # The line is written when the envelope is forwarded; what counts is when it was seen.
            return Step(at=_instant(record.observed_at), after_ms=record.observed_at - began, what=OBSERVED)
        case EnvelopeDecided():
            return Step(at=_instant(record.at), after_ms=record.at - began, what=record.decision, reason=record.reason)
        case NotificationDecided():
            return Step(
                at=_instant(record.at),
                after_ms=record.at - began,
                what=record.decision,
                subscription_id=record.subscription_id,
                client_id=record.client_id.hex(),
                channel=record.channel,
                reason=OWN if record.own else None,
                rule=_rule(record),
            )
        case PushTried():
            client = clients.get(record.subscription_id)
            return Step(
                at=_instant(record.at),
                after_ms=record.at - began,
                what=record.decision,
                subscription_id=record.subscription_id,
                client_id=client.hex() if client else None,
                channel=record.channel,
                attempt=record.attempt,
                status=record.status,
                reason=record.reason,
                provider_id=record.provider_id,
            )


def _rule(record: NotificationDecided) -> str:
    """In the network's words; in digits what it cannot read, such as a key of a newer Clarion."""
    try:
        described = network(record.network).describe(Rule(record.key))
    except (LookupError, ValueError):
        return record.key.hex()
    return ", ".join(f"{name} {value}" for name, value in described.items())


def _place(step: Step) -> tuple[str, datetime]:
    """The envelope's own steps come first."""
    return str(step.subscription_id or ""), step.at


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _receiver(steps: list[Step]) -> str:
    """What came by no channel is of a subscription that the network keeps itself."""
    client = next((step.client_id for step in steps if step.client_id), None)
    kind = f"{steps[0].channel} subscription" if steps[0].channel else "The network's own subscription"
    return f"{kind} {steps[0].subscription_id}" + (f" of client {client}" if client else "")


def _style(what: str) -> str:
    if what in {PushDecision.DELIVERED, PushDecision.RECEIVED}:
        return "green"
    calm = {OBSERVED, EnvelopeDecision.MATCHED, NotificationDecision.QUEUED, PushDecision.RETRY}
    return "" if what in calm else "red"


def _summary(tracks: Tracks, traces: list[Trace], client: bytes | None) -> Iterator[str]:
    """How it ended, in words; each ending once."""
    if not traces:
        yield "The lake knows nothing of it in this time. Then one of these is so:"
        yield from (f"  · {reason}" for reason in NOTHING)
    if tracks.unreadable:
        yield f"{tracks.unreadable} lines could not be read: a newer Clarion wrote them. Update this one."
    endings = list(dict.fromkeys(words for trace in traces for words in _endings(trace)))
    yield from endings
    if client and traces and not any(step.client_id == client.hex() for trace in traces for step in trace.steps):
        yield "None of this client's subscriptions wanted it: no rule of theirs named one of its keys at that time."


def _endings(trace: Trace) -> Iterator[str]:
    own = [step for step in trace.steps if step.subscription_id is None]
    if own and not any(step.what != OBSERVED for step in own):
        yield f"{OBSERVED}: {UNDECIDED}"
    for _, some in groupby(trace.steps, key=lambda step: step.subscription_id):
        last = _ending([step.what for step in some])
        if last == NotificationDecision.QUEUED:
            yield f"{last}: {UNTRIED}"
        elif last in MEANING:
            yield f"{last}: {MEANING[last]}"  # type: ignore[index] # the words are enough: the enums are of strings


def _ending(steps: Sequence[str]) -> str:
    """The last push, if there was any: the event of a decision may be dated after the push that came of it."""
    pushes = [what for what in steps if what in set(PushDecision)]
    return (pushes or steps)[-1]
