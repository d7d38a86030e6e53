"""The bouncer's private keys, as the secret has them now or had a few minutes ago."""

from collections.abc import Callable, Mapping
from time import monotonic

from api.networks.zulip.errors import not_ready
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.registration import PushRegistration, open_registration
from clarion.secrets import Secret

REREAD_SECONDS = 60
REREADS = 6
"""For so many unknown keys is the secret read again in `REREAD_SECONDS`: whoever makes them up costs no more than that."""


class KeyRing:
    """Of one instance of the router."""

    def __init__(self, secret: Secret[BouncerKeys], clock: Callable[[], float] = monotonic) -> None:
        self._secret = secret
        self._clock = clock
        self._reread_at: dict[str, float] = {}

    def open(self, sealed: str, public_key: str, *, token_id: str | None, now: int) -> PushRegistration:
        """As `open_registration` does, by keys as new as need be: a server never tries a refused one again.

        Raises `ZulipError` if the keys can't be read anew yet.
        """
        return open_registration(sealed, public_key, self._opening(public_key), token_id=token_id, now=now)

    def _opening(self, public_key: str) -> Mapping[str, str]:
        keys = self._secret.get()
        if not keys.has(public_key) and not self._is_known_as_missing(public_key):
            keys = self._secret.reread()
            self._reread_at[public_key] = self._clock()
        return keys.opening

    def _is_known_as_missing(self, public_key: str) -> bool:
        """Whether it has been looked for within `REREAD_SECONDS`: a server asks three times without a pause.

        Raises what a server tries again, if it may not be looked for yet: it may be newer than the last look.
        """
        now = self._clock()
        self._reread_at = {key: at for key, at in self._reread_at.items() if now < at + REREAD_SECONDS}
        if public_key not in self._reread_at and len(self._reread_at) >= REREADS:
            raise not_ready("too many unknown keys of a bouncer are being looked for", REREAD_SECONDS)
        return public_key in self._reread_at
