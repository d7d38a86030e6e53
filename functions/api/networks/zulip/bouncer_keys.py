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
        keys = self._secret.get().opening
        if public_key not in keys:
            self._require_pause(public_key)
            keys = self._secret.reread().opening
            self._reread_at[public_key] = self._clock()
        return keys

    def _require_pause(self, public_key: str) -> None:
        """Between two looks for one key, so that a server with a bad one leaves the others their turn.

        Raises what a server tries again: the key may be newer than the last look.
        """
        now = self._clock()
        self._reread_at = {key: at for key, at in self._reread_at.items() if now < at + REREAD_SECONDS}
        if public_key in self._reread_at or len(self._reread_at) >= REREADS:
            raise not_ready("the bouncer's keys have just been read, and this is none of them", REREAD_SECONDS)
