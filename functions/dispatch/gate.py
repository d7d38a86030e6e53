"""Whether an app can push at all: stops its pushes while its configuration is at fault, until it no longer is.

An app's gate is shut at first. One push goes through as a scout; if the provider takes our word for who we are, the
gate opens for the rest. It shuts when an answer says that no push of the app can succeed; then a scout goes as soon
as the key in Secrets Manager is another, and else at growing intervals, since the fault may be fixed at the
provider. Each worker finds this out for itself: a scout in a while is all that the provider sees of it. An answer that
may be one token's fault never shuts it: see `dispatch.trust`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clarion.providers.credentials import Credential
from clarion.providers.outcomes import Delivered, Misconfigured
from dispatch.probes import Probed

LOOK_SECONDS = 30.0
"""Between two looks at the secret."""
FIRST_SCOUT_SECONDS = 60.0
SCOUT_SECONDS = 900.0
"""Between two scouts, first and at most."""


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

    def observe(self, answers: Sequence[Probed]) -> None:
        """Open or shut by the answers of one batch so far; a push that was accepted refutes any fault."""
        accepted = any(isinstance(answer, Delivered) for answer in answers)
        faults = [answer for answer in answers if isinstance(answer, Misconfigured) and answer.whole_app]
        if faults and not accepted:
            self.shut(faults[-1])
        elif any(answer.status is not None for answer in answers):
            self.passed()

    def passed(self) -> None:
        """The provider took our word."""
        self.open, self.fault, self._interval = True, None, FIRST_SCOUT_SECONDS

    def shut(self, fault: Misconfigured) -> None:
        now = self.clock()
        self._interval = FIRST_SCOUT_SECONDS if self.fault is None else min(2 * self._interval, SCOUT_SECONDS)
        self.open, self.fault = False, fault
        self._refused_key = self.credential.key_version
        self._look_at, self._scout_at = now + LOOK_SECONDS, now + self._interval
