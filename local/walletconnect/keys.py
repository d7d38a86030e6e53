"""A stand-in for WalletConnect's key server, where wallets register their identity keys.

https://github.com/WalletConnect/walletconnect-specs/blob/main/docs/specs/servers/keys/identity-keys.md
"""

from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import jwt

from local.http1 import Http1Server
from local.http2 import Response, ServedRequest
from local.provider import json_response, parse_json
from local.tls import Localhost
from local.walletconnect.account import message_of, signer_of
from local.walletconnect.codec import JsonObject, verified

_PATH = "/identity"
_DID = "did:key:"


class KeyServer:
    """An async context manager: it answers on localhost inside. `requests` counts what was asked for.

    `cacaos` are by public key; a test may put there what no key server would accept.
    """

    def __init__(self, localhost: Localhost) -> None:
        self._server = Http1Server(self._respond, localhost.server_context("http/1.1"))
        self.cacaos: dict[str, JsonObject] = {}
        self.requests = 0

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    @property
    def url(self) -> str:
        return f"https://localhost:{self._server.port}"

    async def _respond(self, request: ServedRequest) -> Response:
        self.requests += 1
        url = urlsplit(request.path)
        match request.method if url.path == _PATH else None, parse_json(request.body):
            case "GET", _:
                return self._found(parse_qs(url.query).get("publicKey", [""])[0])
            case "POST", {"cacao": dict(cacao)}:
                return self._registered(cacao)
            case "DELETE", {"idAuth": str(token)}:
                return self._removed(token)
        return Response(HTTPStatus.NOT_FOUND)

    def _found(self, public_key: str) -> Response:
        cacao = self.cacaos.get(public_key)
        return _success({"cacao": cacao}) if cacao else _failure(HTTPStatus.NOT_FOUND, "Identity key not found")

    def _registered(self, cacao: JsonObject) -> Response:
        try:
            payload, signature = cacao["p"], cacao["s"]["s"]
            if signer_of(message_of(payload), signature) != payload["iss"].rpartition(":")[2]:
                return _failure(HTTPStatus.UNAUTHORIZED, "Invalid signature")
        except (KeyError, ValueError) as error:
            return _failure(HTTPStatus.BAD_REQUEST, f"No CACAO: {error}")
        self.cacaos[payload["aud"].rpartition(_DID)[2]] = cacao
        return _success(None)

    def _removed(self, token: str) -> Response:
        try:
            claims = verified(token)
        except jwt.InvalidTokenError:
            return _failure(HTTPStatus.UNAUTHORIZED, "Invalid JWT")
        if (claims["act"], claims["aud"]) != ("unregister_identity", self.url):
            return _failure(HTTPStatus.UNAUTHORIZED, "JWT for something else")
        self.cacaos.pop(claims["iss"].removeprefix(_DID), None)
        return _success(None)


def _success(value: Any) -> Response:
    return json_response(HTTPStatus.OK, {"status": "SUCCESS", "error": None, "value": value})


def _failure(status: HTTPStatus, name: str) -> Response:
    return json_response(status, {"status": "FAILURE", "error": {"name": name, "message": name}, "value": None})
