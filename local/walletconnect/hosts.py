"""The public hosts that WalletConnect's clients ask, on one port of this machine, told apart by their names.

Clients have to map every name to that port, and to trust this machine's own authority.
"""

from http import HTTPStatus
from typing import Self
from urllib.parse import parse_qs, urlsplit

from local.http1 import Http1Server, Respond
from local.http2 import Response, ServedRequest
from local.provider import json_response
from local.tls import Localhost
from local.walletconnect.dapp import Dapp

NOTIFY, EXPLORER, DAPPS = "notify.walletconnect.com", "explorer-api.walletconnect.com", "*.dapp.example"
HOSTS = (NOTIFY, EXPLORER, DAPPS)
"""Names for the certificate."""
DID_DOCUMENT = "/.well-known/did.json"
_NOTIFY_CONFIG = "/w3i/v1/notify-config"


class PublicHosts:
    """An async context manager; `notify_server` answers in the Notify server's place."""

    def __init__(self, localhost: Localhost) -> None:
        self._server = Http1Server(self._respond, localhost.server_context("http/1.1"))
        self._dapps: dict[str, Dapp] = {}
        self.notify_server: Respond | None = None

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    @property
    def port(self) -> int:
        return self._server.port

    def add(self, dapp: Dapp) -> None:
        self._dapps[dapp.domain] = dapp

    async def _respond(self, request: ServedRequest) -> Response:
        host, url = request.header("host"), urlsplit(request.path)
        if host == NOTIFY and self.notify_server:
            return await self.notify_server(request)
        domain = parse_qs(url.query).get("appDomain", [""])[0] if host == EXPLORER else host
        if not (dapp := self._dapps.get(domain or "")):
            return Response(HTTPStatus.NOT_FOUND)
        match host == EXPLORER, url.path:
            case True, path if path == _NOTIFY_CONFIG:
                return json_response(HTTPStatus.OK, {"data": dapp.notify_config})
            case False, path if path == DID_DOCUMENT:
                return json_response(HTTPStatus.OK, dict(dapp.did_document))
        return Response(HTTPStatus.NOT_FOUND)
