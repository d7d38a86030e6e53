"""A stand-in for the push service of a browser's vendor, as strict as the RFCs let one be, and for its browsers.

    python -m local.webpush --keys FOLDER

A subscription is what `subscribe` returns, or, to another process, `POST /_stand-in/subscriptions` with the JSON
`{"applicationServerKey": "…"}`. A push is judged without looking into it, as only the browser can; a message that the
browser cannot decrypt is accepted like any other, has no payload in the journal, and never reaches the browser.

The RFCs give statuses alone; the reasons are the stand-in's own. What a push service may refuse or let pass, this one
refuses: a request without contact (`sub`) or without content.

https://www.rfc-editor.org/rfc/rfc8030
https://www.rfc-editor.org/rfc/rfc8292
"""

import argparse
import asyncio
import re
import secrets
import ssl
from pathlib import Path
from typing import override
from urllib.parse import urlsplit

from clarion import base64url
from local import tls
from local.browser import BrowserSubscription, UndecryptableError
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
from local.vapid import authorization_flaw, public_key_of

STATUS = {
    "BadPath": 404,
    "MethodNotAllowed": 405,
    "UnknownSubscription": 404,
    "ExpiredSubscription": 410,
    "MissingAuthorization": 401,
    "BadAuthorization": 403,
    "BadToken": 403,
    "BadAudience": 403,
    "ExpiredToken": 403,
    "TokenLivesTooLong": 403,
    "BadSubject": 403,
    "KeyMismatch": 403,
    "DuplicateHeaders": 400,
    "BadContentEncoding": 400,
    "BadTtl": 400,
    "BadUrgency": 400,
    "BadTopic": 400,
    "EmptyBody": 400,
    "BodyTooLarge": 413,
    "TooManyRequests": 429,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
}
"""By reason. A subscription can ask for each as its trouble."""

NO_TROUBLE = InjectedFault()

_SUBSCRIPTIONS = "/_stand-in/subscriptions"
_HEADERS = {"authorization", "content-encoding", "ttl", "topic", "urgency"}
_URGENCIES = {"very-low", "low", "normal", "high"}
_TTL = re.compile(r"[0-9]{1,10}")
_MAX_TTL = 28 * 24 * 3600
_MAX_TOPIC = 32
_MAX_BODY = 4096


class PushService(StandIn):
    """Accepts push messages for the subscriptions that it has made, from those whom they were made for.

    In the journal a push's token is its endpoint, its payload the decrypted JSON, None if there is none.
    """

    def __init__(self, context: ssl.SSLContext, *, options: Options = DEFAULTS) -> None:
        super().__init__(context, first_streams=options.max_streams, options=options)
        self._subscriptions: dict[str, BrowserSubscription] = {}
        self._troubles: dict[str, InjectedFault] = {}

    def subscribe(self, application_server_key: str, trouble: InjectedFault = NO_TROUBLE) -> BrowserSubscription:
        """As `pushManager.subscribe` does; the key is base64url. Raises `ValueError` for what is no key.

        The subscription's pushes meet `trouble`, whose `failure` is a reason or a misbehaviour.
        """
        public_key_of(base64url.decode(application_server_key))
        path = f"/push/{secrets.token_urlsafe(32)}"
        subscription = BrowserSubscription(f"{self.url}{path}", application_server_key)
        self._troubles[path] = trouble
        self._subscriptions[path] = subscription
        return subscription

    @override
    def control(self, request: ServedRequest) -> Response | None:
        if (request.method, urlsplit(request.path).path) == ("POST", _SUBSCRIPTIONS):
            return self._subscribe_by_http(request)
        return super().control(request)

    @override
    def respond(self, request: ServedRequest, connection: Connection) -> ServedAnswer:
        path = urlsplit(request.path).path
        trouble = self._troubles.get(path, NO_TROUBLE)
        failure = self._flaw(request, path) or self.meet(path, trouble)
        return self.after(trouble, self._outcome(request, path, trouble, failure))

    def _subscribe_by_http(self, request: ServedRequest) -> Response:
        content = parse_json(request.body)
        key = content.get("applicationServerKey") if isinstance(content, dict) else None
        try:
            return json_response(201, self.subscribe(str(key)).as_json())
        except ValueError:
            return json_response(400, {"reason": "BadApplicationServerKey"})

    def _flaw(self, request: ServedRequest, path: str) -> str | None:
        if not path.startswith("/push/"):
            return "BadPath"
        if request.method != "POST":
            return "MethodNotAllowed"
        subscription = self._subscriptions.get(path)
        if subscription is None:
            return "UnknownSubscription"
        if subscription.ended:
            return subscription.ended
        if flaw := self._authorization_flaw(request, subscription):
            return flaw
        return _header_flaw(request) or _body_flaw(request)

    def _authorization_flaw(self, request: ServedRequest, subscription: BrowserSubscription) -> str | None:
        return authorization_flaw(
            request.header("authorization"),
            application_server_key=subscription.application_server_key,
            origin=self.url,
            now=self.now(),
        )

    def _outcome(
        self, request: ServedRequest, path: str, trouble: InjectedFault, failure: str | Misbehaviour | None
    ) -> Response | Misbehaviour:
        endpoint = f"{self.url}{path}"
        subscription = self._subscriptions.get(path)
        content = _decrypted(subscription, request.body) if subscription else None
        payload = parse_json(content or b"")
        if isinstance(failure, Misbehaviour):
            self.note(request, endpoint, payload, Ruling(0, failure.value))
            return failure
        if failure is not None:
            self.note(request, endpoint, payload, Ruling(STATUS[failure], failure))
            return _refusal(failure, trouble)
        location = f"{self.url}/message/{secrets.token_urlsafe(16)}"
        self.note(request, endpoint, payload, Ruling(201, push_id=location))
        ttl = min(int(request.header("ttl") or 0), _MAX_TTL)
        if subscription and content is not None:
            subscription.deliver(content, topic=request.header("topic"), expires_at=self.now() + ttl)
        return Response(201, (("location", location), ("ttl", str(ttl))))


def _decrypted(subscription: BrowserSubscription, body: bytes) -> bytes | None:
    try:
        return subscription.keys.decrypt(body)
    except UndecryptableError:
        return None


def _header_flaw(request: ServedRequest) -> str | None:
    ours = [name for name, _ in request.headers if name in _HEADERS]
    topic = request.header("topic")
    flaws = {
        "DuplicateHeaders": len(ours) > len(set(ours)),
        "BadContentEncoding": request.header("content-encoding") != "aes128gcm",
        "BadTtl": not _TTL.fullmatch(request.header("ttl") or ""),
        "BadUrgency": request.header("urgency") not in {None, *_URGENCIES},
        "BadTopic": topic is not None and not (base64url.ALPHABET.fullmatch(topic) and 0 < len(topic) <= _MAX_TOPIC),
    }
    return next((reason for reason, present in flaws.items() if present), None)


def _body_flaw(request: ServedRequest) -> str | None:
    if not request.body:
        return "EmptyBody"
    return "BodyTooLarge" if len(request.body) > _MAX_BODY else None


def _refusal(failure: str, trouble: InjectedFault) -> Response:
    status = STATUS[failure]
    challenge = (("www-authenticate", "vapid"),) if status == 401 else ()
    after = (("retry-after", str(trouble.retry_after)),) if trouble.retry_after is not None else ()
    return json_response(status, {"reason": failure}, (*challenge, *after))


async def _serve(arguments: argparse.Namespace) -> None:
    end = end_of_life()
    context = tls.Localhost.within(arguments.keys).server_context()
    async with PushService(context, options=options_of(arguments)) as stand_in:
        print(stand_in.url, flush=True)
        await end.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m local.webpush", description="A stand-in for browsers' push services; prints its URL."
    )
    parser.add_argument("--keys", type=Path, required=True, help="the folder that `python -m local.keys` filled")
    add_options(parser)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
