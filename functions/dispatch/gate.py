"""How an app's pushes fare in one worker: whether it can push at all, and whether it is to blame for a refusal.

A gate stops an app's pushes while its configuration is at fault, and finds out by itself when it no longer is.

An app's gate is shut at first. One push goes through as a scout; if the provider takes our word for who we are, the
gate opens for the rest. It shuts when an answer says that no push of the app can succeed; then a scout goes as soon
as the key in Secrets Manager is another, and else at growing intervals, since the fault may be mended at the
provider. Each worker finds this out for itself: a scout in a while is all that the provider sees of it.

Some refusals are the answer to a token of another app, and as well to every token if our configuration is that of
another app (`TokenOrApp`). Clients choose their tokens, so such an answer never shuts the gate: it holds its own push
alone. It ends the subscription only while enough of the app's other pushes are accepted by the same key.
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
tester's phone accepts. One client with tokens of another project is less than that beside everybody else.
"""
MOST_TRUST = 100
"""Of the score, either way: so many subscriptions may end before a configuration that has just broken is suspected."""
TRUST_SECONDS = 600.0
"""How long an accepted push vouches for anything."""


@dataclass(slots=True)
class Gate:
    """`clock` is in UNIX seconds. `presumed` is how many tokens are believed to be at fault before a push is accepted."""

    credential: Credential
    clock: Callable[[], float]
    presumed: int = 0
    open: bool = False
    fault: Misconfigured | None = None
    _trust: int = field(init=False)
    _trusted_key: str | None = None
    _accepted_at: float = 0.0
    _refused_key: str | None = None
    _interval: float = FIRST_SCOUT_SECONDS
    _look_at: float = 0.0
    _scout_at: float = 0.0

    def __post_init__(self) -> None:
        self._trust = self.presumed

    def wants_scout(self) -> bool:
        """Whether a shut gate should be tried now."""
        if self.fault is None or self.clock() >= self._scout_at:
            return True
        if self.clock() < self._look_at:
            return False
        self._look_at = self.clock() + LOOK_SECONDS
        self.credential.renew()
        return self.credential.key_version != self._refused_key

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Open or shut by the answers of one batch so far; a push that was accepted refutes any fault."""
        accepted = any(isinstance(outcome, Delivered) for outcome in outcomes)
        faults = [outcome for outcome in outcomes if isinstance(outcome, Misconfigured) and outcome.whole_app]
        if faults and not accepted:
            self.shut(faults[-1])
        elif any(outcome.status is not None for outcome in outcomes):
            self.passed()

    def verdicts(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """What each answer of a batch means beside the others, and those of the batches before."""
        accepted = sum(isinstance(outcome, Delivered) for outcome in outcomes)
        self._note(accepted)
        return [self._verdict(outcome, refuted=accepted > 0) for outcome in outcomes]

    def _verdict(self, outcome: Outcome, *, refuted: bool) -> Outcome:
        match outcome:
            case TokenOrApp(status=status, reason=reason):
                self._trust = max(self._trust - 1, -MOST_TRUST)
                if self._trust >= 0:
                    return TokenGone(status=status, reason=reason)
                return Misconfigured(status=status, reason=reason, whole_app=False)
            case Misconfigured(whole_app=True) if refuted:
                return replace(outcome, whole_app=False)
        return outcome

    def _note(self, accepted: int) -> None:
        """Only what the key in use achieves counts; it may have been replaced amid the answers."""
        key, now = self.credential.key_version, self.clock()
        if key != self._trusted_key:
            accepted = accepted if self._trusted_key is None else 0
            self._trust, self._trusted_key = self.presumed, key
        if now - self._accepted_at > TRUST_SECONDS:
            self._trust = min(self._trust, self.presumed)
        if accepted:
            self._trust = min(self._trust + VOUCHED * accepted, MOST_TRUST)
            self._accepted_at = now

    def passed(self) -> None:
        """The provider took our word."""
        self.open, self.fault, self._interval = True, None, FIRST_SCOUT_SECONDS

    def shut(self, fault: Misconfigured) -> None:
        now = self.clock()
        self._interval = FIRST_SCOUT_SECONDS if self.fault is None else min(2 * self._interval, SCOUT_SECONDS)
        self.open, self.fault = False, fault
        self._refused_key = self.credential.key_version
        self._look_at, self._scout_at = now + LOOK_SECONDS, now + self._interval
