"""What one worker knows of an app: whether it can push at all, and whose fault a refusal is.

An app's gate is shut at first. One push goes through as a scout; if the provider accepts our credential, the gate opens
for the rest. It shuts when an answer says that no push of the app can succeed; then a scout goes as soon as the key in
Secrets Manager is another, and else at growing intervals, since the fault may be fixed at the provider. Each worker
finds this out for itself: a scout in a while is all that the provider sees of it.

Some refusals are the answer to one bad token, and as well to every token if our configuration is wrong (`TokenOrApp`).
Clients choose their tokens, so such an answer holds its own push alone, and never shuts the gate. It ends the
subscription only while enough of the app's other pushes are accepted by the same key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from clarion.providers.credentials import Credential
from clarion.providers.outcomes import Delivered, Misconfigured, Outcome, TokenGone, TokenOrApp

LOOK_SECONDS = 30.0
"""Between two looks at the secret."""
FIRST_SCOUT_SECONDS = 60.0
SCOUT_SECONDS = 900.0
"""Between two scouts, first and at most."""
VOUCHED = 10
"""How many refusals one accepted push vouches for.

With a wrong service account nearly all pushes are refused, and all but nothing may be concluded from the few that a
tester's phone accepts. One client with bad tokens is less than that beside everybody else.
"""
MOST_TRUST = 100
"""Of the score, either way: so many subscriptions may end before a configuration that has just broken is suspected."""
TRUST_SECONDS = 600.0
"""How long an accepted push vouches for anything."""

type Answer = Outcome | TokenOrApp


@dataclass(slots=True)
class Gate:
    """`clock` is in UNIX seconds."""

    credential: Credential
    clock: Callable[[], float]
    open: bool = False
    fault: Misconfigured | None = None
    _refused_key: str | None = None
    _interval: float = FIRST_SCOUT_SECONDS
    _look_at: float = 0.0
    _scout_at: float = 0.0

    def wants_scout(self) -> bool:
        """Whether a shut gate should be tried now."""
        if self.fault is None or self.clock() >= self._scout_at:
            return True
        if self.clock() < self._look_at:
            return False
        self._look_at = self.clock() + LOOK_SECONDS
        self.credential.renew()
        return self.credential.key_version != self._refused_key

    def observe(self, answers: Sequence[Answer]) -> None:
        """Open or shut by the answers of one batch so far; a push that was accepted refutes any fault."""
        accepted = any(isinstance(answer, Delivered) for answer in answers)
        faults = [answer for answer in answers if isinstance(answer, Misconfigured) and answer.whole_app]
        if faults and not accepted:
            self.shut(faults[-1])
        elif any(answer.status is not None for answer in answers):
            self.passed()

    def passed(self) -> None:
        """The provider accepted our credential."""
        self.open, self.fault, self._interval = True, None, FIRST_SCOUT_SECONDS

    def shut(self, fault: Misconfigured) -> None:
        now = self.clock()
        self._interval = FIRST_SCOUT_SECONDS if self.fault is None else min(2 * self._interval, SCOUT_SECONDS)
        self.open, self.fault = False, fault
        self._refused_key = self.credential.key_version
        self._look_at, self._scout_at = now + LOOK_SECONDS, now + self._interval


@dataclass(slots=True)
class Trust:
    """`clock` is in UNIX seconds. `presumed` is how many tokens are believed to be at fault before a push is accepted."""

    credential: Credential
    clock: Callable[[], float]
    presumed: int = 0
    _score: int = field(init=False)
    _key: str | None = None
    _accepted_at: float = 0.0

    def __post_init__(self) -> None:
        self._score = self.presumed

    def outcomes(self, answers: Sequence[Answer]) -> list[Outcome]:
        """What each answer of a batch means beside the others, and those of the batches before."""
        accepted = sum(isinstance(answer, Delivered) for answer in answers)
        self._record(accepted)
        return [self._outcome(answer, refuted=accepted > 0) for answer in answers]

    def _outcome(self, answer: Answer, *, refuted: bool) -> Outcome:
        match answer:
            case TokenOrApp(status=status, reason=reason):
                self._score = max(self._score - 1, -MOST_TRUST)
                if self._score >= 0:
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
        if now - self._accepted_at > TRUST_SECONDS:
            self._score = min(self._score, self.presumed)
        if accepted:
            self._score = min(self._score + VOUCHED * accepted, MOST_TRUST)
            self._accepted_at = now
