"""The account of an identity key, from the key server that a request names.

    GET https://keys.example.com/identity?publicKey=z6Mk…  ──▶  {"status": "SUCCESS", "value": {"cacao": {…}}}

Wallets choose the key server, so only one on the deployment's list is asked, over https, at a public IP address unless
the deployment says otherwise, and redirects are not followed. Its answer is kept for a week; the CACAO is checked each
time, and fetched again if it no longer holds. A token bucket limits the requests for keys; a command above the limit is
retried.
https://github.com/WalletConnect/walletconnect-specs/blob/main/docs/specs/servers/keys/identity-keys.md
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple

from clarion.clock import now_ms
from clarion.command_queue import MayPassError
from clarion.networks.walletconnect.buckets import KEY_SERVER_REQUESTS, take
from clarion.networks.walletconnect.identity import Identity, InvalidCacao, check_cacao
from clarion.networks.walletconnect.identity_cache import KEPT_SECONDS, IdentityDocument, cached_identity
from clarion.networks.walletconnect.settings import WalletConnectOptions
from clarion.providers.transport import Answer, Request, Transport
from walletconnect.refusals import NotServed, RefusalReason

_KEY_SERVER = re.compile(r"https://(?P<host>[a-z0-9.-]+)(?P<port>:[1-9][0-9]{0,4})?/?")
_BUSY = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}


class KeyServerUnavailable(MayPassError):  # noqa: N818 - what it says is that it is
    """It may answer later."""


class KeyServerAddress(NamedTuple):
    """`authority` is a host, with its port if that is not the default one."""

    authority: str
    public: bool


class KeyServerClient:
    def __init__(self, transport: Transport, options: WalletConnectOptions) -> None:
        self._transport = transport
        self._options = options
        self._unavailable = set[str]()

    def begin_batch(self) -> None:
        """Forget which key servers failed. One that fails is not asked again within a batch."""
        self._unavailable.clear()

    def identify(self, key: str, ksu: str, *, subject: str, now: int) -> Identity:
        """Whose the identity key `z6Mk…` is, if `subject` (a did:pkh) has let it sign at `now` in UNIX seconds.

        `ksu` is the key server's URL. Raises `NotServed`, or `KeyServerUnavailable`.
        """
        server = self._key_server(ksu)
        if cached := cached_identity(key, ksu, now):
            # One that holds no longer may have been renewed since.
            with suppress(InvalidCacao):
                return check_cacao(cached.cacao, identity_public_key=key, subject=subject, now=now)
        cacao = self._fetch(key, server)
        try:
            identity = check_cacao(cacao, identity_public_key=key, subject=subject, now=now)
        except InvalidCacao as invalid:
            raise NotServed(RefusalReason.INVALID_IDENTITY, invalid.reason) from None
        IdentityDocument(key, ksu=ksu, cacao=dict(cacao), ttl=now + KEPT_SECONDS).save()
        return identity

    def _key_server(self, ksu: str) -> KeyServerAddress:
        """Only one that may have a private address may have a port of its own."""
        matched = _KEY_SERVER.fullmatch(ksu)
        if matched is None:
            raise NotServed(RefusalReason.UNKNOWN_KEY_SERVER)
        host, port = matched["host"], matched["port"] or ""
        if host in self._options.private_key_servers:
            return KeyServerAddress(host + port, public=False)
        if port or host not in self._options.key_servers:
            raise NotServed(RefusalReason.UNKNOWN_KEY_SERVER)
        return KeyServerAddress(host, public=True)

    def _fetch(self, key: str, server: KeyServerAddress) -> Mapping[str, Any]:
        if server.authority in self._unavailable:
            raise KeyServerUnavailable("it did not answer another request")
        if not take(KEY_SERVER_REQUESTS, "all", now_ms()):
            raise KeyServerUnavailable("too many requests")
        try:
            return self._ask(key, server)
        except KeyServerUnavailable:
            self._unavailable.add(server.authority)
            raise

    def _ask(self, key: str, server: KeyServerAddress) -> Mapping[str, Any]:
        authority, public = server
        url = f"https://{authority}/identity?publicKey={key}"
        request = Request(url, ["accept: application/json"], None, f"key server {authority}", public=public)
        [result] = self._transport.send([request])
        if not isinstance(result, Answer):
            raise KeyServerUnavailable(result.reason)
        return _cacao_of(result)


def _cacao_of(answer: Answer) -> Mapping[str, Any]:
    if answer.status in _BUSY or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise KeyServerUnavailable(f"status {answer.status}")
    if answer.status != HTTPStatus.OK:
        raise NotServed(RefusalReason.UNKNOWN_IDENTITY)
    match answer.json():
        case {"value": {"cacao": dict(cacao)}}:
            return cacao
    raise NotServed(RefusalReason.INVALID_IDENTITY)
