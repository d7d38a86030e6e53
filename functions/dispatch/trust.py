"""Whether a refusal is the token's fault or the app's, by how the app's other pushes fare in one worker.

Some refusals are the answer to one bad token, and as well to every token if our configuration is wrong (`TokenOrApp`).
Clients choose their tokens, so such an answer holds its own push alone. It ends the subscription only while enough of
the app's other pushes are accepted by the same key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from clarion.providers.credentials import Credential
from clarion.providers.outcomes import Delivered, Misconfigured, Outcome, TokenGone, TokenOrApp
from dispatch.probes import Probed

VOUCHED = 10
"""How many refusals one accepted push vouches for.

With a wrong service account nearly all pushes are refused, and all but nothing may be concluded from the few that a
tester's phone accepts. One client with bad tokens is less than that beside everybody else.
"""
MOST_TRUST = 100
"""Of the score, either way: so many subscriptions may end before a configuration that has just broken is suspected."""
TRUST_SECONDS = 600.0
"""How long an accepted push vouches for anything."""


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

    def outcomes(self, answers: Sequence[Probed]) -> list[Outcome]:
        """What each answer of a batch means beside the others, and those of the batches before."""
        accepted = sum(isinstance(answer, Delivered) for answer in answers)
        self._record(accepted)
        return [self._outcome(answer, refuted=accepted > 0) for answer in answers]

    def _outcome(self, answer: Probed, *, refuted: bool) -> Outcome:
        match answer:
            case TokenOrApp(status=status, reason=reason):
                self._score = max(self._score - 1, -MOST_TRUST)
                if self._score >= 0:
                    return TokenGone(status=status, reason=reason)
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
