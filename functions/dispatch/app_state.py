"""What one worker knows of an app: whether it can push at all, and whose fault a refusal is.

An app's circuit breaker starts open, and then sends one push as a trial; if the provider accepts it, the circuit
closes, and the rest is sent. It trips when an answer says that no push of the app can succeed. The next trial
is sent as soon as the key in Secrets Manager is another, and else at growing intervals, since the fault may be fixed at
the provider. Each worker has breakers of its own, so a provider gets one trial an interval from each. Other
answers, such as a 503, say nothing of the app: then the rest goes out where no fault is known, and else the next batch
has a trial, too.

Some refusals are the answer to one bad token, and as well to every token if our configuration is wrong (`TokenOrApp`).
Clients choose their tokens, so such an answer holds its own push alone, and never trips the breaker. It ends the
subscription only while enough of the app's other pushes are accepted by the same key. Tokens that strangers may make up
are judged by that, and say nothing about the app.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from clarion.providers.credentials import Credential
from clarion.providers.outcomes import Delivered, Misconfigured, Outcome, TokenGone, TokenOrApp

SECRET_CHECK_SECONDS = 30.0
"""Between two checks of the secret for another key."""
FIRST_TRIAL_SECONDS = 60.0
TRIAL_SECONDS = 900.0
"""Between two trials, first and at most."""
REFUSALS_PER_ACCEPTED = 10
"""How many refusals are taken for their tokens' fault for each accepted push.

With a wrong service account nearly all pushes are refused, and all but nothing may be concluded from the few that a
tester's phone accepts. One client with bad tokens is less than that beside everybody else.
"""
MAX_SCORE = 100
"""The score's maximum and, negated, its minimum.

So many subscriptions may end before a configuration that has just broken is suspected.
"""
SCORE_SECONDS = 600.0
"""How long an accepted push counts."""

type ProbedAnswer = Outcome | TokenOrApp
"""What `send_and_probe` returns."""


@dataclass(slots=True)
class CircuitBreaker:
    """`closed`: pushes are sent; `fault` is why not, once a push has met one. `clock` is in UNIX seconds."""

    credential: Credential
    clock: Callable[[], float]
    closed: bool = False
    fault: Misconfigured | None = None
    _refused_key: str | None = None
    _interval: float = FIRST_TRIAL_SECONDS
    _check_at: float = 0.0
    _trial_at: float = 0.0

    def allows_trial(self) -> bool:
        """Whether one push may be sent now although the circuit is open."""
        if self.fault is None or self.clock() >= self._trial_at:
            return True
        if self.clock() < self._check_at:
            return False
        self._check_at = self.clock() + SECRET_CHECK_SECONDS
        self.credential.renew()
        return self.credential.key_version != self._refused_key

    def observe(self, answers: Sequence[ProbedAnswer]) -> None:
        """Trip or reset by the answers of one batch so far; a push that was accepted refutes any fault."""
        accepted = any(isinstance(answer, Delivered) for answer in answers)
        faults = [answer for answer in answers if isinstance(answer, Misconfigured) and answer.whole_app]
        if accepted:
            self.reset()
        elif faults:
            self.trip(faults[-1])
        elif any(answer.status is not None for answer in answers):
            self._trial_at = 0.0

    def reset(self) -> None:
        """The provider accepted a push."""
        self.closed, self.fault, self._interval = True, None, FIRST_TRIAL_SECONDS

    def trip(self, fault: Misconfigured) -> None:
        now = self.clock()
        self._interval = FIRST_TRIAL_SECONDS if self.fault is None else min(2 * self._interval, TRIAL_SECONDS)
        self.closed, self.fault = False, fault
        self._refused_key = self.credential.key_version
        self._check_at, self._trial_at = now + SECRET_CHECK_SECONDS, now + self._interval


@dataclass(slots=True)
class TokenFaultScore:
    """Whose fault an ambiguous refusal is: the token's, unless the score is below zero.

    `clock` is in UNIX seconds. `presumed` is how many tokens are believed to be at fault before a push is accepted.
    """

    credential: Credential
    clock: Callable[[], float]
    presumed: int = 0
    _score: int = field(init=False)
    _key: str | None = None
    _accepted_at: float = 0.0

    def __post_init__(self) -> None:
        self._score = self.presumed

    def outcomes(self, answers: Sequence[ProbedAnswer], of_strangers: Sequence[bool]) -> list[Outcome]:
        """What each answer of a batch means beside the others, and those of the batches before."""
        accepted = sum(isinstance(answer, Delivered) for answer in answers)
        self._record(accepted)
        both = zip(answers, of_strangers, strict=True)
        return [self._outcome(answer, refuted=accepted > 0, counts=not of_stranger) for answer, of_stranger in both]

    def _outcome(self, answer: ProbedAnswer, *, refuted: bool, counts: bool) -> Outcome:
        match answer:
            case TokenOrApp(status=status, reason=reason):
                score = max(self._score - 1, -MAX_SCORE)
                if counts:
                    self._score = score
                if score >= 0:
                    return TokenGone(status=status, reason=reason, certain=False)
                return Misconfigured(status=status, reason=reason, whole_app=False)
            case Misconfigured(whole_app=True) if refuted:
                return replace(answer, whole_app=False)
        return answer

    def _record(self, accepted: int) -> None:
        """Only what the key in use achieves counts; it may have been replaced amid the answers."""
        key, now = self.credential.key_version, self.clock()
        if key != self._key:
            accepted = accepted if self._key is None else 0
            self._score, self._key = self.presumed, key
        if now - self._accepted_at > SCORE_SECONDS:
            self._score = min(self._score, self.presumed)
        if accepted:
            self._score = min(self._score + REFUSALS_PER_ACCEPTED * accepted, MAX_SCORE)
            self._accepted_at = now
