"""A stand-in for the receiver that a deployment's operator runs behind the webhook, as docs/webhook.md asks for one.

    python -m local.webhook --keys FOLDER

It takes pushes for the installations that it has made, by `install`, and from nobody but who holds its secret. The docs
give statuses alone; the reasons are the stand-in's own.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import ssl
from pathlib import Path
from typing import Any, override
from urllib.parse import urlsplit

from local import tls
from local.http2 import Connection, Misbehaviour, Response, ServedAnswer, ServedRequest
from local.lifetime import end_of_life
from local.provider import (
    DEFAULTS,
    InjectedFault,
    Options,
    Ruling,
    StandIn,
    add_options,
    json_response,
    options_of,
    parse_json,
)

STATUS = {
    "BadContentType": 415,
    "BadBody": 400,
    "DuplicateHeaders": 400,
    "BadPath": 404,
    "MethodNotAllowed": 405,
    "BadAuthorization": 401,
    "MissingSignature": 401,
    "BadSignature": 401,
    "BadClientSignature": 401,
    "BadTimestamp": 401,
    "UnknownInstallation": 200,
    "Created": 201,
    "NoContent": 204,
    "PermanentRedirect": 308,
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "Gone": 410,
    "RequestTimeout": 408,
    "TooEarly": 425,
    "TooManyRequests": 429,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
}
"""By reason. An installation can ask for each as its trouble."""

PATH = "/push"
TOLERANCE_S = 300
NO_TROUBLE = InjectedFault()

_SIGNED_WITH = ("webhook-id", "webhook-timestamp", "clarion-client")
_SIGNATURES = ("webhook-signature", "clarion-client-signature")
_HEADERS = {"authorization", "content-type", *_SIGNED_WITH, *_SIGNATURES}


class Webhook(StandIn):
    """In the journal a push's token is the installation's, its payload the body, its id that of the webhook."""

    def __init__(self, context: ssl.SSLContext, *, options: Options = DEFAULTS) -> None:
        super().__init__(context, first_streams=options.max_streams, options=options)
        self.authorization = f"Bearer {secrets.token_urlsafe(24)}"
        self.signing_key = secrets.token_bytes(32)
        self._troubles: dict[str, InjectedFault] = {}

    @property
    def push_url(self) -> str:
        return f"{self.url}{PATH}"

    def secret_as_json(self) -> str:
        """What an operator puts into the deployment's secret."""
        key = f"whsec_{base64.b64encode(self.signing_key).decode()}"
        return json.dumps({"authorization": self.authorization, "signing_key": key})

    def install(self, trouble: InjectedFault = NO_TROUBLE) -> str:
        """The address of a new installation, as a subscription has it; its pushes meet `trouble`."""
        token = secrets.token_urlsafe(16)
        self._troubles[token] = trouble
        address = {"client": secrets.token_hex(32), "installation_id": secrets.token_hex(32), "token": token}
        return json.dumps(address, separators=(",", ":"))

    @override
    def respond(self, request: ServedRequest, connection: Connection) -> ServedAnswer:
        content = parse_json(request.body)
        token = _token_of(content)
        trouble = self._troubles.get(token, NO_TROUBLE)
        failure = self._flaw(request, token) or self.meet(token, trouble)
        return self.after(trouble, self._outcome(request, token, content, trouble, failure))

    def _flaw(self, request: ServedRequest, token: str) -> str | None:
        if urlsplit(request.path).path != PATH:
            return "BadPath"
        if request.method != "POST":
            return "MethodNotAllowed"
        if flaw := self._forgery(request):
            return flaw
        if request.header("content-type") != "application/json":
            return "BadContentType"
        if not token:
            return "BadBody"
        return None if token in self._troubles else "UnknownInstallation"

    def _forgery(self, request: ServedRequest) -> str | None:
        """Why it may not be from who holds the secret."""
        names = [name for name, _ in request.headers if name in _HEADERS]
        if len(names) > len(set(names)):
            return "DuplicateHeaders"
        if not hmac.compare_digest((request.header("authorization") or "").encode(), self.authorization.encode()):
            return "BadAuthorization"
        push_id, stamp, client = (request.header(name) or "" for name in _SIGNED_WITH)
        of_body, of_client = (request.header(name) or "" for name in _SIGNATURES)
        if not all((push_id, stamp, client, of_body, of_client)):
            return "MissingSignature"
        signed = {"BadSignature": (request.body, of_body), "BadClientSignature": (client.encode(), of_client)}
        for flaw, (content, signatures) in signed.items():
            if not self._is_signed(push_id, stamp, content, signatures):
                return flaw
        if not stamp.isdecimal() or abs(self.now() - int(stamp)) > TOLERANCE_S:
            return "BadTimestamp"
        return None

    def _is_signed(self, push_id: str, stamp: str, content: bytes, signatures: str) -> bool:
        """Whether one of the signatures, of which several may be separated by spaces, is that of the content."""
        signed = b".".join([push_id.encode(), stamp.encode(), content])
        digest = hmac.new(self.signing_key, signed, hashlib.sha256).digest()
        expected = f"v1,{base64.b64encode(digest).decode()}"
        return any(hmac.compare_digest(each.encode(), expected.encode()) for each in signatures.split(" "))

    def _outcome(
        self,
        request: ServedRequest,
        token: str,
        content: Any,
        trouble: InjectedFault,
        failure: str | Misbehaviour | None,
    ) -> Response | Misbehaviour:
        push_id = request.header("webhook-id")
        if isinstance(failure, Misbehaviour):
            self.note(request, token, content, Ruling(0, failure.value, push_id))
            return failure
        if failure is not None:
            self.note(request, token, content, Ruling(STATUS[failure], failure, push_id))
            return _refusal(failure, trouble)
        self.note(request, token, content, Ruling(200, push_id=push_id))
        return Response(200)


def _token_of(content: Any) -> str:
    """Empty for what is not shaped as the docs have it."""
    match content:
        case {
            "installation": {
                "id": str(),
                "delivery_mechanism": {"kind": "custom", "token": str(token)},
            }
        }:
            return token
    return ""


def _refusal(failure: str, trouble: InjectedFault) -> Response:
    after = (("retry-after", str(trouble.retry_after)),) if trouble.retry_after is not None else ()
    moved = (("location", "https://elsewhere.example/"),) if failure == "PermanentRedirect" else ()
    if failure == "NoContent":
        return Response(STATUS[failure])
    return json_response(STATUS[failure], {"reason": failure}, (*after, *moved))


async def _serve(arguments: argparse.Namespace) -> None:
    end = end_of_life()
    context = tls.Localhost.within(arguments.keys).server_context()
    async with Webhook(context, options=options_of(arguments)) as stand_in:
        print(stand_in.push_url, flush=True)
        await end.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m local.webhook", description="A stand-in for the receiver behind the webhook; prints its URL."
    )
    parser.add_argument("--keys", type=Path, required=True, help="the folder that `python -m local.keys` filled")
    add_options(parser)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
