"""A batch of statements on its way: each stage takes the cases that are still open one step further."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from itertools import batched

from clarion.decisions import EnvelopeDecision
from clarion.messages import PushMessage, EnvelopeMessage
from match import fan_out, lookups
from match.admission import Admission, Notification, Ruling
from match.case import Case
from match.claims import Claim, Claims
from match.fan_out import Page
from match.faults import Fault, Unreadable, settle, sound
from match.matching import Match, Receiver, in_doubt, match
from match.outbox import Letter, Outbox
from match.settings import MatchSettings
from match.source import Source
from match.verdict import Rejected, Verified, judge

RESERVE = 8_000
"""Milliseconds kept for sending what was decided, and for the failed messages' delays. With less left, nothing begins."""
_NO_TIME = Fault("no time left")
PAGES = 8
"""How many pages of subscriptions one invocation tells at most; the rest goes into further messages."""


@dataclass(frozen=True)
class Matcher:
    settings: MatchSettings
    source: Source
    claims: Claims
    admission: Admission
    outbox: Outbox
    pool: Executor
    clock: Callable[[], int]
    time_left: Callable[[], int] = lambda: RESERVE
    """Milliseconds."""

    def decide(self, cases: Sequence[Case]) -> None:
        """Take every case to its end, as `Case` tells them. What is sent waits for no crowd's pages."""
        self._judge(cases)
        going = self._in_turn([case for case in cases if isinstance(case.verdict, Verified)])
        self._match(going)
        self._finish([case for case in going if not case.message.span])
        self._finish([case for case in going if case.message.span])
        self.admission.publish()

    def _finish(self, cases: Sequence[Case]) -> None:
        self._admit([case for case in cases if not case.fault])
        self._send([case for case in cases if not case.fault])
        self._post((case, letter) for case in cases if not case.fault for letter in case.onward)

    def _send(self, cases: Sequence[Case]) -> None:
        """If a queue takes only some of a case's pushes, the others come again without them, in a message of their own."""
        letters = [{str(push.subscription_id): self._letter(push) for push in case.pushes()} for case in cases]
        refused = self.outbox.post(dict.fromkeys(letter for mine in letters for letter in mine.values()))
        for case, mine in zip(cases, letters, strict=True):
            unsent = {name: refused[letter] for name, letter in mine.items() if letter in refused}
            if unsent and len(unsent) == len(mine):
                case.fault = next(iter(unsent.values()))
            elif unsent:
                case.onward.append(self._onward(case.without(unsent)))

    def _judge(self, cases: Sequence[Case]) -> None:
        now = self.clock()
        for case, verdict in self._settle(lambda case: judge(self.source.read(case.message), now), cases):
            if isinstance(verdict, Fault):
                case.fault = verdict.reason
                continue
            case.verdict = verdict
            if isinstance(verdict, Rejected):
                case.decision = verdict.decision

    def _in_turn(self, cases: Sequence[Case]) -> list[Case]:
        """All but the pages of a fan-out that another message has; statements come before pages."""
        going = [case for case in cases if not case.message.span]
        for case, taken in self._settle(self._take_page, [case for case in cases if case.message.span]):
            if isinstance(taken, Fault):
                case.fault = taken.reason
            elif taken:
                going.append(case)
        return going

    def _take_page(self, case: Case) -> bool:
        now = self.clock()
        return self.claims.take(fan_out.page_record(case.message, case.verified, now)) is not Claim.TAKEN

    def _match(self, cases: Sequence[Case]) -> None:
        pages = self._pages(cases)
        receivers = self._receivers({name for _, page in pages for name in page.subscription_ids})
        doubts: list[tuple[Case, set[str]]] = []
        for case, page in pages:
            changed = case.changed(page)
            found = {name: receivers[name] for name in page.subscription_ids - changed if name in receivers}
            known = sound(case.readable(found))
            if isinstance(known, Fault):
                case.fault = known.reason
                continue
            case.matches = match(page.wishes, known)
            if names := changed | in_doubt(page.wishes, known, case.matches):
                doubts.append((case, names))
        self._look_closer(doubts)
        for case, _ in pages:
            if not (case.fault or case.message.span or case.message.look_id or case.message.unsent):
                wanted = case.matches or case.onward
                case.decision = EnvelopeDecision.MATCHED if wanted else EnvelopeDecision.UNMATCHED

    def _look_closer(self, doubts: Iterable[tuple[Case, set[str]]]) -> None:
        for (case, _), found in self._settle(_in_force, doubts):
            matches = found if isinstance(found, Fault) else sound(case.readable(found))
            if isinstance(matches, Fault):
                case.fault = matches.reason
            else:
                case.matches = [*case.matches, *matches.values()]

    def _pages(self, cases: Sequence[Case]) -> list[tuple[Case, Page]]:
        """What rules the batch has room for; the rest goes onward."""
        size = self.settings.fan_out_page
        questions = dict.fromkeys(question for case in cases for question in case.questions().values())
        found = dict(self._settle(partial(lookups.rules, page=size), questions))
        pages, room = [], PAGES * size
        for case in cases:
            wanted = sound({topic: found[question] for topic, question in case.questions().items()})
            if isinstance(wanted, Fault):
                case.fault = wanted.reason
                continue
            page = fan_out.cut(wanted, case.message.span, min(size, room))
            room -= len(page.subscription_ids)
            for some in wanted.values():
                case.left_out |= {name: flaw.reason for name, flaw in some.unreadable.items() if page.reaches(name)}
            case.onward = [self._onward(message) for message in fan_out.successors(case.message, page)]
            pages.append((case, page))
        return pages

    def _receivers(self, names: Iterable[str]) -> dict[str, Receiver | Fault]:
        receivers: dict[str, Receiver | Fault] = {}
        for some, found in self._settle(lookups.receivers, batched(names, lookups.BATCH_GET_KEYS, strict=False)):
            receivers |= dict.fromkeys(some, found) if isinstance(found, Fault) else found
        return receivers

    def _admit(self, cases: Sequence[Case]) -> None:
        of_pair: dict[bytes, list[tuple[Case, Notification]]] = defaultdict(list)
        for case in cases:
            for notification in case.notifications():
                of_pair[notification.pair].append((case, notification))
        for asked, rulings in self._settle(self._rule, of_pair.values()):
            if isinstance(rulings, Fault):
                for case, _ in asked:
                    case.fault = rulings.reason
                continue
            for (case, notification), ruling in zip(asked, rulings, strict=True):
                case.rule(notification, ruling)

    def _rule(self, asked: Sequence[tuple[Case, Notification]]) -> list[Ruling]:
        return self.admission.decide([notification for _, notification in asked])

    def _settle[Task, Result](
        self, work: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> list[tuple[Task, Result | Fault]]:
        """`settle`, but what has not begun in time is a fault."""

        def begin(task: Task) -> Result | Fault:
            return work(task) if self.time_left() >= RESERVE else _NO_TIME

        return settle(self.pool, begin, tasks)

    def _letter(self, push: PushMessage) -> Letter:
        return Letter(self.settings.push_queues[push.channel], push.to_json())

    def _onward(self, message: EnvelopeMessage) -> Letter:
        return Letter(self.settings.envelopes_queue_url, message.to_json())

    def _post(self, letters: Iterable[tuple[Case, Letter]]) -> None:
        senders: dict[Letter, list[Case]] = defaultdict(list)
        for case, letter in letters:
            senders[letter].append(case)
        for letter, reason in self.outbox.post(senders).items():
            for case in senders[letter]:
                case.fault = reason


def _in_force(doubt: tuple[Case, set[str]]) -> dict[str, Match | Unreadable]:
    case, subscription_ids = doubt
    return lookups.in_force(subscription_ids, case.verified.sender, case.topics)
