"""Stops an app's pushes while its configuration is at fault, and finds out by itself when it no longer is.

An app's gate is shut at first. One push goes through as a scout; if the provider takes our word for who we are, the
gate opens for the rest. It shuts when an answer says that no push of the app can succeed; then a scout goes as soon
as the key in Secrets Manager is another, and else at growing intervals, since the fault may be mended at the
provider. Each worker finds this out for itself: a scout in a while is all that the provider sees of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from clarion.providers.credentials import Credential
from clarion.providers.outcomes import Misconfigured

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

    def passed(self) -> None:
        """The provider took our word."""
        self.open, self.fault, self._interval = True, None, FIRST_SCOUT_SECONDS

    def shut(self, fault: Misconfigured) -> None:
        now = self.clock()
        self._interval = FIRST_SCOUT_SECONDS if self.fault is None else min(2 * self._interval, SCOUT_SECONDS)
        self.open, self.fault = False, fault
        self._refused_key = self.credential.key_version
        self._look_at, self._scout_at = now + LOOK_SECONDS, now + self._interval
