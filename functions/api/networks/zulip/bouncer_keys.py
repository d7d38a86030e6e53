"""The bouncer's private keys, as the secret has them now or had a few minutes ago."""

from collections.abc import Callable, Mapping
from time import monotonic

from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.registration import PushRegistration, open_registration
from clarion.secrets import Secret

REREAD_SECONDS = 10
"""The secret is read again no sooner for unknown keys: whoever makes them up costs no more than that."""


class KeyRing:
    """Of one instance of the router."""

    def __init__(self, secret: Secret[BouncerKeys], clock: Callable[[], float] = monotonic) -> None:
        self._secret = secret
        self._clock = clock
        self._reread_at = float("-inf")

    def open(self, sealed: str, public_key: str, *, token_id: str | None, now: int) -> PushRegistration:
        """As `open_registration` does, by keys as new as need be: a server never tries a refused one again."""
        return open_registration(sealed, public_key, self._opening(public_key), token_id=token_id, now=now)

    def _opening(self, public_key: str) -> Mapping[str, str]:
        keys = self._secret.get().opening
        if public_key in keys or self._clock() < self._reread_at + REREAD_SECONDS:
            return keys
        self._reread_at = self._clock()
        return self._secret.reread().opening
