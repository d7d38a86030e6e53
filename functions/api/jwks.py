"""An issuer's public keys, fetched when a token asks for them and kept for a while, whatever the tokens say.

    the keys are                    fetched anew
    not known yet                   at once
    older than `KEEP_SECONDS`       at once; the old ones serve up to `STALE_SECONDS` if that fails
    without the token's key id      at most every `UNKNOWN_SECONDS`
    not to be had                   after 1, 2, 4 … `MOST_BACKOFF` seconds, and nobody waits for them meanwhile

So forged tokens can't make an endpoint that hangs hold up the tokens of others.
"""

import time
from collections.abc import Callable, Mapping
from threading import Lock

import certifi
import jwt
import pycurl

FETCH_SECONDS = 2
"""From the first look at the endpoint's name to the last byte of its answer."""
FETCH_BYTES = 1_000_000
KEEP_SECONDS = 300
STALE_SECONDS = 3600
UNKNOWN_SECONDS = 30
MOST_BACKOFF = 60


class KeysUnavailable(Exception):  # noqa: N818 - what it says is that they are
    """The endpoint doesn't answer in time, or with something else than keys."""


class PublicKeys:
    """Called with a token, finds the key that its header names. Several threads may call at once: one fetches.

    Raises `KeysUnavailable`, or what PyJWT raises: `PyJWKClientError` if the issuer has no such key, `DecodeError` if
    the token has no readable header. `fetch` answers with the bytes at the address. `clock` is in UNIX seconds, since
    others may stand still while a Lambda is frozen.
    """

    def __init__(self, fetch: Callable[[], bytes], clock: Callable[[], float] = time.time) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = Lock()
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched_at = float("-inf")
        self._backoff = 0
        self._not_before = float("-inf")

    def __call__(self, token: str) -> jwt.PyJWK:
        key_id = str(jwt.get_unverified_header(token).get("kid"))
        with self._lock:
            now = self._clock()
            wait = KEEP_SECONDS if key_id in self._keys else UNKNOWN_SECONDS
            if now >= max(self._fetched_at + wait, self._not_before):
                self._refresh(now)
            if self._clock() - self._fetched_at > STALE_SECONDS:
                raise KeysUnavailable
            if key_id not in self._keys and self._backoff:
                raise KeysUnavailable
            if key_id not in self._keys:
                raise jwt.PyJWKClientError("the issuer has no such key")
            return self._keys[key_id]

    def _refresh(self, now: float) -> None:
        """After a failure the keys stay as they were."""
        try:
            self._keys = _signing_keys(self._fetch())
        except KeysUnavailable:
            self._backoff = min(2 * self._backoff or 1, MOST_BACKOFF)
            self._not_before = self._clock() + self._backoff
        else:
            self._fetched_at, self._backoff, self._not_before = now, 0, now


def fetch(url: str) -> bytes:
    """What is at `url` now. Redirects are not followed: the address is configured, and so is whom we trust."""
    curl, received = pycurl.Curl(), bytearray()

    def receive(some: bytes) -> int:
        received.extend(some)
        return len(some) if len(received) <= FETCH_BYTES else 0

    try:
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.CAINFO, certifi.where())
        curl.setopt(pycurl.TIMEOUT, FETCH_SECONDS)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.WRITEFUNCTION, receive)
        curl.perform()
        status = curl.getinfo(pycurl.RESPONSE_CODE)
    except pycurl.error as error:
        raise KeysUnavailable(str(error)) from None
    finally:
        curl.close()
    if status != 200:
        raise KeysUnavailable(f"status {status}")
    return bytes(received)


def _signing_keys(body: bytes) -> Mapping[str, jwt.PyJWK]:
    try:
        found = jwt.PyJWKSet.from_json(body.decode()).keys
        keys = {key.key_id: key for key in found if key.key_id and key.public_key_use in {"sig", None}}
    except (ValueError, TypeError, AttributeError, RecursionError, jwt.PyJWTError) as error:
        raise KeysUnavailable(type(error).__name__) from None
    if not keys:
        raise KeysUnavailable("no signing key")
    return keys
