"""The calls that a self-hosted Zulip server makes to its push bouncer.

https://github.com/zulip/zulip: zerver/lib/remote_server.py, zerver/management/commands/register_server.py
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx

type JsonObject = dict[str, Any]

RETRIED = frozenset({"MISSING_REMOTE_REALM", "INVALID_ZULIP_SERVER", "PUSH_NOTIFICATIONS_DISALLOWED"})
"""Codes of what an administrator has to mend: a registration waits until that is done."""

_VERSION = "12.0"
_FEATURE_LEVEL = 483


class BouncerUnavailableError(Exception):
    """There was no answer, a 5xx, or one of the codes in `RETRIED`."""


class BouncerRefusalError(Exception):
    """Any other answer that is an error; `code` is empty where it has none."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Bouncer:
    """What a server knows the bouncer by; `http` has its base URL, and closes with whoever made it.

    All calls raise `BouncerUnavailableError` and `BouncerRefusalError`.
    """

    def __init__(self, http: httpx.AsyncClient, org_id: UUID, org_key: str) -> None:
        self._http = http
        self._org_id = org_id
        self._org_key = org_key

    async def register_server(self, hostname: str, contact_email: str, *, new_org_key: str | None = None) -> bool:
        """Whether it is new to the bouncer. Another key is to take this one's place: see `use_key`."""
        given = {
            "zulip_org_id": str(self._org_id),
            "zulip_org_key": self._org_key,
            "hostname": hostname,
            "contact_email": contact_email,
        }
        if new_org_key:
            given["new_org_key"] = new_org_key
        answer = await self.call("POST", "server/register", signed_in=False, data=given)
        return bool(answer["created"])

    def use_key(self, org_key: str) -> None:
        self._org_key = org_key

    async def deactivate_server(self) -> None:
        await self.call("POST", "server/deactivate", json={})

    async def report_realms(self, realms: Iterable[JsonObject]) -> dict[UUID, bool]:
        """Whether the bouncer sends pushes for each. Beside the realms a server reports its statistics, here none."""
        last = await self.call("GET", "server/analytics/status")
        if not all(isinstance(last[f"last_{table}_id"], int) for table in ("realm_count", "installation_count")):
            raise TypeError("the status of analytics has no numbers")
        report = {
            "realm_counts": [],
            "installation_counts": [],
            "realmauditlog_rows": [],
            "realms": list(realms),
            "version": _VERSION,
            "merge_base": _VERSION,
            "api_feature_level": _FEATURE_LEVEL,
        }
        fields = {name: json.dumps(value) for name, value in report.items()}
        answer = await self.call("POST", "server/analytics", data=fields)
        return {UUID(realm): bool(state["can_push"]) for realm, state in answer["realms"].items()}

    async def register_device(self, fields: Mapping[str, str]) -> JsonObject:
        return await self.call("POST", "push/e2ee/register", data=fields)

    async def notify(self, realm: UUID, pushes: Mapping[str, Sequence[JsonObject]]) -> JsonObject:
        """`pushes` is one list, by the name that the server's profile gives it."""
        return await self.call("POST", "push/e2ee/notify", json={"realm_uuid": str(realm), **pushes})

    async def notify_legacy(
        self, realm: UUID, content: JsonObject, *, android: list[str], apple: list[str]
    ) -> JsonObject:
        """The push of the unencrypted protocol, by tokens of one user; of what it carries, as much as tells the events apart."""
        pushes = {
            "realm_uuid": str(realm),
            "apns_payload": {"custom": {"zulip": content}} if apple else {},
            "gcm_payload": content if android else {},
            "gcm_options": {"priority": "normal" if content["type"] == "remove" else "high"} if android else {},
            "android_devices": android,
            "apple_devices": apple,
        }
        return await self.call("POST", "push/notify", json=pushes)

    async def expired(self, realm: UUID) -> AsyncIterator[JsonObject]:
        """The pages of the realm's devices that have expired."""
        query = {"realm_uuid": str(realm)}
        while True:
            page = await self.call("GET", "push/e2ee/expired", params=query)
            yield page
            if not page.get("cursor"):
                return
            query["cursor"] = page["cursor"]

    async def call(self, method: str, route: str, *, signed_in: bool = True, **content: Any) -> JsonObject:
        """`route` is below `/api/v1/remotes/`, `content` as httpx takes it."""
        credentials = httpx.BasicAuth(str(self._org_id), self._org_key) if signed_in else None
        headers = {"User-Agent": f"ZulipServer/{_VERSION}"}
        url = f"/api/v1/remotes/{route}"
        try:
            answer = await self._http.request(method, url, auth=credentials, headers=headers, **content)
        except httpx.TransportError as error:
            raise BouncerUnavailableError(type(error).__name__) from error
        return _content_of(answer)


def _content_of(answer: httpx.Response) -> JsonObject:
    if answer.is_server_error:
        raise BouncerUnavailableError(f"HTTP status {answer.status_code}")
    content: JsonObject = answer.json()
    if answer.status_code == httpx.codes.OK and content["result"] == "success":
        return content
    code = content.get("code", "")
    if code in RETRIED:
        raise BouncerUnavailableError(code)
    raise BouncerRefusalError(code, content["msg"])
