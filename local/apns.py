"""A stand-in for APNs that is as strict as Apple documents it.

    python -m local.apns --keys FOLDER --topic io.pcf.polkadotapp

A device token can ask for trouble: see `local.apns_trouble`.

https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
"""

import argparse
import asyncio
import re
import ssl
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any, override

import jwt

from local import keys, tls
from local.apns_trouble import FAILURES, STATUS, trouble_of
from local.http2 import Connection, Misbehaviour, Response, ServedAnswer, ServedRequest
from local.keys import ApnsKeyPair
from local.lifetime import end_of_life
from local.provider import (
    DEFAULTS,
    Clock,
    InjectedFault,
    Options,
    Ruling,
    StandIn,
    add_options,
    json_response,
    options_of,
    parse_json,
)

_PATH = re.compile(r"/3/device/(?P<token>[^/]*)")
_DEVICE_TOKEN = re.compile(r"(?:[0-9a-f]{2}){32,100}", re.IGNORECASE)
_PUSH_TYPES = {
    *("alert", "background", "complication", "controls", "fileprovider", "liveactivity"),
    *("location", "mdm", "pushtotalk", "voip", "widgets"),
}
_PRIORITIES = {"10", "5", "1"}
_MAX_COLLAPSE_ID = 64
_MAX_PAYLOAD = 4096
_MAX_VOIP_PAYLOAD = 5120
_TOKEN_LIFETIME = 3600
_TOKEN_REFRESH = 1200
_CLOCK_SKEW = 60


class ProviderTokens:
    """Judges provider tokens: signed by a known key, of its team, at most an hour old, and not renewed too often.

    https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
    """

    def __init__(self, known: Collection[ApnsKeyPair], now: Clock) -> None:
        self._teams = {key.key_id: key.team_id for key in known}
        self._public_keys = {key.key_id: key.public_key for key in known}
        self._now = now
        self._issued: dict[str, int] = {}
        self._newest: dict[str, float] = {}

    def flaw(self, authorization: str | None) -> str | None:
        """Apple's reason to refuse the header, or None."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return "MissingProviderToken"
        issued = self._issued.get(token)
        if issued is None:
            return self._flaw_of_new(token)
        return "ExpiredProviderToken" if self._expired(issued) else None

    def _flaw_of_new(self, token: str) -> str | None:
        try:
            key_id = jwt.get_unverified_header(token)["kid"]
            claims = jwt.decode(
                token,
                self._public_keys[key_id],
                algorithms=["ES256"],
                issuer=self._teams[key_id],
                options={"require": ["iat"], "verify_iat": False},  # against a clock of our own, below
            )
        except (jwt.InvalidTokenError, KeyError):
            return "InvalidProviderToken"
        if not isinstance(claims["iat"], int) or claims["iat"] > self._now() + _CLOCK_SKEW:
            return "InvalidProviderToken"
        if self._expired(claims["iat"]):
            return "ExpiredProviderToken"
        if self._now() - self._newest.get(key_id, 0) < _TOKEN_REFRESH:
            return "TooManyProviderTokenUpdates"
        self._newest[key_id] = self._now()
        self._issued[token] = claims["iat"]
        return None

    def _expired(self, issued: int) -> bool:
        return self._now() - issued > _TOKEN_LIFETIME


class Apns(StandIn):
    """Accepts pushes for `topics`, the apps' bundle ids, from providers that hold one of the `known` keys."""

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        known: Collection[ApnsKeyPair],
        topics: Collection[str],
        options: Options = DEFAULTS,
    ) -> None:
        super().__init__(context, first_streams=1, options=options)
        self._streams = options.max_streams
        self._topics = {*topics, *(f"{topic}.voip" for topic in topics)}
        self._provider_tokens = ProviderTokens(known, options.now)

    @override
    def respond(self, request: ServedRequest, connection: Connection) -> ServedAnswer:
        found = _PATH.fullmatch(request.path)
        token = found["token"] if found else ""
        trouble = trouble_of(token)
        failure = self._flaw(request, token if found else None, connection) or self.meet(token, trouble)
        return self.after(trouble, self._outcome(request, token, trouble, failure))

    def _flaw(self, request: ServedRequest, token: str | None, connection: Connection) -> str | None:
        if request.method != "POST":
            return "MethodNotAllowed"
        if token is None:
            return "BadPath"
        if flaw := self._provider_tokens.flaw(request.header("authorization")):
            return flaw
        connection.allow_streams(self._streams)
        return _device_flaw(token) or _header_flaw(request) or self._topic_flaw(request) or _payload_flaw(request)

    def _topic_flaw(self, request: ServedRequest) -> str | None:
        topic = request.header("apns-topic")
        if topic is None:
            return "MissingTopic"
        if topic.endswith(".voip") != (request.header("apns-push-type") == "voip"):
            return "BadTopic"
        return None if topic in self._topics else "TopicDisallowed"

    def _outcome(
        self, request: ServedRequest, token: str, trouble: InjectedFault, failure: str | Misbehaviour | None
    ) -> Response | Misbehaviour:
        push_id = request.header("apns-id") or str(uuid.uuid4())
        payload = parse_json(request.body)
        if isinstance(failure, Misbehaviour):
            self.note(request, token, payload, Ruling(0, failure.value, push_id))
            return failure
        status = STATUS[failure] if failure else 200
        self.note(request, token, payload, Ruling(status, failure, push_id))
        if failure is None:
            return Response(200, (("apns-id", push_id),))
        content: dict[str, Any] = {"reason": failure}
        if status == 410:
            content["timestamp"] = int((self.now() - trouble.ago) * 1000)
        after = (("retry-after", str(trouble.retry_after)),) if trouble.retry_after is not None else ()
        return json_response(status, content, (("apns-id", push_id), *after))


def _device_flaw(token: str) -> str | None:
    if not token:
        return "MissingDeviceToken"
    return None if _DEVICE_TOKEN.fullmatch(token) else "BadDeviceToken"


def _header_flaw(request: ServedRequest) -> str | None:
    headers = dict(request.headers)
    push_type = headers.get("apns-push-type", "alert")
    priority = headers.get("apns-priority", "10")
    ours = [name for name, _ in request.headers if name.startswith("apns-")]
    flaws = {
        "DuplicateHeaders": len(ours) > len(set(ours)),
        "BadMessageId": "apns-id" in headers and not _is_canonical_uuid(headers["apns-id"]),
        "BadExpirationDate": not headers.get("apns-expiration", "0").isdecimal(),
        "InvalidPushType": push_type not in _PUSH_TYPES,
        "BadPriority": priority not in _PRIORITIES or (push_type == "background" and priority == "10"),
        "BadCollapseId": len(headers.get("apns-collapse-id", "").encode()) > _MAX_COLLAPSE_ID,
    }
    return next((reason for reason, present in flaws.items() if present), None)


def _is_canonical_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _payload_flaw(request: ServedRequest) -> str | None:
    """Apple documents no reason for what is no JSON or has no `aps` dictionary; the nearest is PayloadEmpty."""
    limit = _MAX_VOIP_PAYLOAD if request.header("apns-push-type") == "voip" else _MAX_PAYLOAD
    if len(request.body) > limit:
        return "PayloadTooLarge"
    match parse_json(request.body):
        case {"aps": dict()}:
            return None
    return "PayloadEmpty"


def _print_reasons() -> None:
    for (status, nth), failure in sorted(FAILURES.items(), key=lambda place: place[0]):
        print(f"dead{status:03}{nth:02}  {failure if isinstance(failure, str) else failure.value}")


async def _serve(arguments: argparse.Namespace) -> None:
    end = end_of_life()
    stand_in = Apns(
        tls.Localhost.within(arguments.keys).server_context(),
        known=[keys.load_apns_key(arguments.keys)],
        topics=arguments.topic,
        options=options_of(arguments),
    )
    async with stand_in:
        print(stand_in.url, flush=True)
        await end.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m local.apns", description="A stand-in for APNs; prints its URL.")
    parser.add_argument("--reasons", action="store_true", help="print what a device token can ask for, and exit")
    parser.add_argument("--keys", type=Path, help="the folder that `python -m local.keys` filled")
    parser.add_argument("--topic", action="append", default=[], help="a bundle id to accept; may be repeated")
    add_options(parser)
    arguments = parser.parse_args()
    if arguments.reasons:
        _print_reasons()
    else:
        asyncio.run(_serve(arguments))


if __name__ == "__main__":
    main()
