"""A stand-in for Google's token endpoint and FCM's HTTP v1 API, as strict as Google documents them.

    python -m local.fcm --keys FOLDER

It writes FOLDER/service-account.json, which names its token endpoint. Fields of a message that Clarion never sends
(notification, topic, …) are refused as unknown. A device token can ask for trouble, by these words in order:

    DELAY250-            answer after so many milliseconds
    UNREGISTERED-        this error (any in `ERRORS`), or RESET-, GOAWAY-, RST_STREAM-, SILENCE-
    AFTER30-             with Retry-After, in seconds
    TIMES1-              only the first so many pushes; the next are accepted

So `UNAVAILABLE-AFTER30-TIMES1-…` is once UNAVAILABLE with Retry-After: 30, then fine.

`INVALID_ARGUMENT-` is answered as Google answers a malformed token. What is sent with `validateOnly` is judged like the
rest, and is not among the pushes that were received.

https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send
https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
https://developers.google.com/identity/protocols/oauth2/service-account#httprest
"""

import argparse
import asyncio
import re
import secrets
import ssl
from pathlib import Path
from typing import Annotated, Any, Literal, Self, override
from urllib.parse import parse_qs, urlsplit

import jwt
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from local import keys, tls
from local.http2 import Connection, Misbehaviour, Response, ServedAnswer, ServedRequest
from local.keys import ServiceAccount
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

ERRORS = {
    "UNREGISTERED": (404, "NOT_FOUND"),
    "INVALID_ARGUMENT": (400, "INVALID_ARGUMENT"),
    "SENDER_ID_MISMATCH": (403, "PERMISSION_DENIED"),
    "THIRD_PARTY_AUTH_ERROR": (401, "UNAUTHENTICATED"),
    "QUOTA_EXCEEDED": (429, "RESOURCE_EXHAUSTED"),
    "UNAVAILABLE": (503, "UNAVAILABLE"),
    "INTERNAL": (500, "INTERNAL"),
}
"""FCM's error codes: HTTP status and canonical status."""

MESSAGES = {
    "UNREGISTERED": "Requested entity was not found.",
    "INVALID_ARGUMENT": "The registration token is not a valid FCM registration token",
    "SENDER_ID_MISMATCH": "SenderId mismatch",
}
"""Google's message beside the code, where that is known."""

MISBEHAVIOURS = {
    "RESET": Misbehaviour.RESET_CONNECTION,
    "GOAWAY": Misbehaviour.GO_AWAY,
    "RST_STREAM": Misbehaviour.RESET_STREAM,
    "SILENCE": Misbehaviour.SILENCE,
}

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"

_GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_WORDS = re.compile(
    r"(?:DELAY(?P<delay>\d+)-)?"
    rf"(?:(?P<failure>{'|'.join([*ERRORS, *MISBEHAVIOURS])})-(?:AFTER(?P<after>\d+)-)?(?:TIMES(?P<times>\d+)-)?)?"
)
_FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_TTL = re.compile(r"(\d+)(?:\.\d{1,9})?s")
_MAX_TTL = 28 * 24 * 3600
_MAX_DATA = 4096
_TOKEN_LIFETIME = 3599
_MAX_ASSERTION_LIFETIME = 3600
_CLOCK_SKEW = 60


def _lasting_at_most_four_weeks(ttl: str) -> str:
    found = _TTL.fullmatch(ttl)
    if found is None or int(found[1]) > _MAX_TTL:
        raise ValueError("no duration from 0s to 2419200s")
    return ttl


def _with_allowed_keys(data: dict[str, str]) -> dict[str, str]:
    if reserved := [key for key in data if key in {"from", "message_type"} or key.startswith(("google", "gcm"))]:
        raise ValueError(f"reserved key {reserved[0]}")
    return data


class _Shape(BaseModel):
    """Google's JSON takes a field's camel-case name or its original one, and refuses what it doesn't know."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="forbid")


class _Android(_Shape):
    priority: Literal["HIGH", "NORMAL", "high", "normal"] = "NORMAL"
    ttl: Annotated[StrictStr, AfterValidator(_lasting_at_most_four_weeks)] = "2419200s"
    collapse_key: StrictStr | None = None


class _Apns(_Shape):
    """For an iPhone: a payload with `aps`, and headers that are text."""

    headers: dict[str, StrictStr] = Field(default_factory=dict)
    payload: dict[Literal["aps"], dict[str, Any]]


class _Notification(_Shape):
    title: StrictStr


class _Webpush(_Shape):
    headers: dict[str, StrictStr] = Field(default_factory=dict)
    notification: _Notification


class _Message(_Shape):
    token: StrictStr | None = Field(None, min_length=1)
    fid: StrictStr | None = Field(None, min_length=1)
    data: Annotated[dict[str, StrictStr], AfterValidator(_with_allowed_keys)] = Field(default_factory=dict)
    android: _Android = Field(default_factory=_Android)
    apns: _Apns | None = None
    webpush: _Webpush | None = None

    @model_validator(mode="after")
    def _to_one_device_and_not_too_big(self) -> Self:
        if (self.token is None) == (self.fid is None):
            raise ValueError("the recipient is exactly one of token and fid")
        if sum(len(key.encode()) + len(value.encode()) for key, value in self.data.items()) > _MAX_DATA:
            raise ValueError("Android message is too big")
        return self


class _SendRequest(_Shape):
    validate_only: bool = False
    message: _Message


class AccessTokens:
    """Exchanges a service account's signed assertions for access tokens, and knows them again."""

    def __init__(self, account: ServiceAccount, now: Clock) -> None:
        self._account = account
        self._public_key = account.public_key
        self._now = now
        self._expiry: dict[str, float] = {}

    def valid(self, authorization: str | None) -> bool:
        scheme, _, token = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and self._expiry.get(token, 0) > self._now()

    def exchange(self, request: ServedRequest, audience: str) -> Response:
        form = parse_qs(request.body.decode(errors="replace"))
        if form.get("grant_type") != [_GRANT_TYPE]:
            return _oauth_error("unsupported_grant_type", "Invalid grant_type")
        try:
            claims = self._claims(form.get("assertion", [""])[0], audience)
        except jwt.InvalidTokenError as error:
            return _oauth_error("invalid_grant", f"Invalid JWT: {error}")
        if not self._timely(claims):
            return _oauth_error("invalid_grant", "Invalid JWT: iat and exp must frame now, an hour apart at most")
        if SCOPE not in str(claims.get("scope")).split():
            return _oauth_error("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        return self._grant()

    def _claims(self, assertion: str, audience: str) -> dict[str, Any]:
        return jwt.decode(
            assertion,
            self._public_key,
            algorithms=["RS256"],
            issuer=self._account.client_email,
            audience=audience,
            options={"require": ["iss", "aud", "iat", "exp"], "verify_exp": False, "verify_iat": False},
        )

    def _timely(self, claims: dict[str, Any]) -> bool:
        issued, expires = claims["iat"], claims["exp"]
        if not isinstance(issued, int) or not isinstance(expires, int):
            return False
        return issued - _CLOCK_SKEW <= self._now() < expires <= issued + _MAX_ASSERTION_LIFETIME

    def _grant(self) -> Response:
        token = f"ya29.{secrets.token_urlsafe(32)}"
        self._expiry[token] = self._now() + _TOKEN_LIFETIME
        return json_response(200, {"access_token": token, "expires_in": _TOKEN_LIFETIME, "token_type": "Bearer"})


class Fcm(StandIn):
    """Accepts messages for the account's project, from whoever has exchanged an assertion of the account."""

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        account: ServiceAccount,
        options: Options = DEFAULTS,
    ) -> None:
        super().__init__(context, first_streams=options.max_streams, options=options)
        self._project = account.project_id
        self._access_tokens = AccessTokens(account, options.now)

    @property
    def token_uri(self) -> str:
        return f"{self.url}/token"

    @override
    def respond(self, request: ServedRequest, connection: Connection) -> ServedAnswer:
        path = urlsplit(request.path).path
        if request.method == "POST" and path == "/token":
            return ServedAnswer(self._access_tokens.exchange(request, self.token_uri))
        found = re.fullmatch(r"/v1/projects/([^/]+)/messages:send", path)
        if request.method != "POST" or found is None:
            return ServedAnswer(_error(404, "NOT_FOUND", "The requested URL was not found on this server."))
        body = parse_json(request.body)
        device = _device(body)
        trouble = trouble_of(device)
        refusal = self._refusal(request, found[1], body)
        return self.after(trouble, refusal or self._outcome(request, device, body, trouble))

    @override
    def note(self, request: ServedRequest, token: str, payload: Any, ruling: Ruling) -> None:
        if not _validates_only(payload):
            super().note(request, token, payload, ruling)

    def _refusal(self, request: ServedRequest, project: str, body: Any) -> Response | None:
        if not self._access_tokens.valid(request.header("authorization")):
            return self._refuse(request, body, 401, "UNAUTHENTICATED", [_error_info("ACCESS_TOKEN_EXPIRED")])
        if project != self._project:
            return self._refuse(request, body, 403, "PERMISSION_DENIED", [_error_info("IAM_PERMISSION_DENIED")])
        try:
            _SendRequest.model_validate(body)
        except ValidationError as invalid:
            details = [_fcm_error("INVALID_ARGUMENT"), _violations(invalid)]
            return self._refuse(request, body, 400, "INVALID_ARGUMENT", details)
        return None

    def _refuse(
        self, request: ServedRequest, body: Any, status: int, canonical: str, details: list[dict[str, Any]]
    ) -> Response:
        self.note(request, _device(body), body, Ruling(status, canonical))
        return _error(status, canonical, "The request was refused; see the details.", details)

    def _outcome(
        self, request: ServedRequest, device: str, body: Any, trouble: InjectedFault
    ) -> Response | Misbehaviour:
        failure = self.meet(device, trouble)
        if isinstance(failure, Misbehaviour):
            self.note(request, device, body, Ruling(0, failure.value))
            return failure
        if failure is not None:
            status, canonical = ERRORS[failure]
            self.note(request, device, body, Ruling(status, failure))
            message = MESSAGES.get(failure, failure)
            return _error(status, canonical, message, [_fcm_error(failure)], trouble.retry_after)
        name = f"projects/{self._project}/messages/{secrets.token_hex(8)}"
        self.note(request, device, body, Ruling(200, push_id=name))
        return json_response(200, {"name": name})


def trouble_of(token: str) -> InjectedFault:
    """What the device asks for by its token's prefix; most ask for nothing."""
    found = _WORDS.match(token)
    if found is None or not found[0]:
        return InjectedFault()
    failure, after, times = found["failure"], found["after"], found["times"]
    return InjectedFault(
        failure=MISBEHAVIOURS.get(failure, failure),
        delay=int(found["delay"] or 0) / 1000,
        retry_after=int(after) if after else None,
        times=int(times) if times else None,
    )


def _device(body: Any) -> str:
    match body:
        case {"message": {"token": str(device)}} | {"message": {"fid": str(device)}}:
            return device
    return ""


def _validates_only(body: Any) -> bool:
    return isinstance(body, dict) and (body.get("validateOnly") is True or body.get("validate_only") is True)


def _error(
    status: int,
    canonical: str,
    message: str,
    details: list[dict[str, Any]] | None = None,
    retry_after: int | None = None,
) -> Response:
    error = {"code": status, "message": message, "status": canonical, "details": details or []}
    after = (("retry-after", str(retry_after)),) if retry_after is not None else ()
    return json_response(status, {"error": error}, after)


def _fcm_error(code: str) -> dict[str, Any]:
    return {"@type": _FCM_ERROR, "errorCode": code}


def _error_info(reason: str) -> dict[str, Any]:
    return {"@type": _ERROR_INFO, "reason": reason, "domain": "googleapis.com"}


def _violations(invalid: ValidationError) -> dict[str, Any]:
    fields = [
        {"field": ".".join(map(str, error["loc"])), "description": error["msg"]}
        for error in invalid.errors(include_input=False, include_url=False)
    ]
    return {"@type": _BAD_REQUEST, "fieldViolations": fields}


def _oauth_error(error: str, description: str) -> Response:
    return json_response(400, {"error": error, "error_description": description})


async def _serve(arguments: argparse.Namespace) -> None:
    end = end_of_life()
    account = keys.load_service_account(arguments.keys)
    stand_in = Fcm(
        tls.Localhost.within(arguments.keys).server_context(),
        account=account,
        options=options_of(arguments),
    )
    async with stand_in:
        keys.write_service_account(arguments.keys, account, stand_in.token_uri)
        print(stand_in.url, flush=True)
        await end.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m local.fcm", description="A stand-in for FCM; prints its URL.")
    parser.add_argument("--keys", type=Path, required=True, help="the folder that `python -m local.keys` filled")
    add_options(parser)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
