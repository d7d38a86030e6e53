"""The API's operations, named as in docs/openapi.json: what each sends, and how its answer reads. Nothing is sent here.

An operation yields requests, is sent their successful answers, and returns its result: so both clients run the same ones.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack
from urllib.parse import quote

import httpx

from clarion_client.models import (
    Added,
    Channel,
    DeliveryList,
    DirectPushOptions,
    NotificationResult,
    PushType,
    Registered,
    Removed,
    RuleShape,
    SubscriptionChange,
    SubscriptionShape,
    SubscriptionState,
)

_SUBSCRIPTIONS = "/v1/subscriptions"
_RULES = f"{_SUBSCRIPTIONS}/rules"


@dataclass(frozen=True, slots=True)
class Request:
    """To be sent after `delay` seconds."""

    method: str
    path: str
    body: Mapping[str, object] | None = field(default=None, repr=False)
    delay: float = 0


type Operation[T] = Generator[Request, httpx.Response, T]


def rule(sender: bytes, topic: bytes, notify_type: PushType | None = None) -> RuleShape:
    """Sender's public key and topic, 32 bytes each."""
    named: RuleShape = {"sender_pubkey": sender.hex(), "topic": topic.hex()}
    return {**named, "notify_type": notify_type} if notify_type else named


def register_subscription(channel: Channel, token: str, **options: Unpack[SubscriptionChange]) -> Operation[Registered]:
    """A token that you have registered is the problem `token-taken`, with its `subscription_id`: go on with that one.

    If it is pending, its code may not have been pushed: ask for another.
    """
    return _request("POST", _SUBSCRIPTIONS, {"notificationType": channel, "token": token, **options})


def list_subscriptions() -> Operation[list[SubscriptionShape]]:
    """All pages in one. If rules change meanwhile it is the problem `rules-changed`: begin again."""
    found: dict[str, SubscriptionShape] = {}
    path: str | None = _SUBSCRIPTIONS
    while path:
        answer = yield Request("GET", path)
        for part in answer.json():
            whole = found.setdefault(part["subscription_id"], part)
            if whole is not part:  # its rules go on from the page before
                whole["rules"] += part["rules"]
        path = answer.links.get("next", {}).get("url")
    return list(found.values())


def get_subscription(subscription_id: str) -> Operation[SubscriptionState]:
    return _request("GET", _path(subscription_id))


def change_subscription(subscription_id: str, **changes: Unpack[SubscriptionChange]) -> Operation[SubscriptionState]:
    return _request("PATCH", _path(subscription_id), {**changes})


def replace_token(subscription_id: str, token: str) -> Operation[Registered]:
    """The rules stay. The token must be of the same channel."""
    return _request("PUT", _path(subscription_id, "/token"), {"token": token})


def prove_token(subscription_id: str, code: str) -> Operation[Registered]:
    """Hand back the code that was pushed."""
    return _request("POST", _path(subscription_id, "/proof"), {"code": code})


def request_code(subscription_id: str) -> Operation[None]:
    """Have another code pushed, in place of the last one."""
    return _request("POST", _path(subscription_id, "/proof/request"))


def list_deliveries(subscription_id: str) -> Operation[DeliveryList]:
    return _request("GET", _path(subscription_id, "/deliveries"))


def remove_subscriptions(*subscription_ids: str) -> Operation[None]:
    """All of them or, if one is not yours, none."""
    return _request("DELETE", _SUBSCRIPTIONS, {"subscription_ids": subscription_ids})


def replace_rules(subscription_id: str, rules: Iterable[RuleShape]) -> Operation[None]:
    return _request("PUT", _RULES, _of(subscription_id, rules))


def add_rules(subscription_id: str, rules: Iterable[RuleShape]) -> Operation[Added]:
    return _request("POST", _RULES, _of(subscription_id, rules))


def remove_rules(subscription_id: str, rules: Iterable[RuleShape]) -> Operation[Removed]:
    return _request("DELETE", _RULES, _of(subscription_id, rules))


def push_directly(
    token: str, push_id: str, message: bytes, **options: Unpack[DirectPushOptions]
) -> Operation[NotificationResult]:
    """`push_id` is 32 or 64 hex digits. A push that the provider refuses is no problem, but a result without success."""
    body = {"deviceToken": token, "pushId": push_id, "message": message.hex(), **options}
    return _request("POST", "/v1/notify", body)


def _request(method: str, path: str, body: Mapping[str, object] | None = None) -> Operation[Any]:
    answer = yield Request(method, path, body)
    return answer.json() if answer.content else None


def _path(subscription_id: str, part: str = "") -> str:
    return f"{_SUBSCRIPTIONS}/{quote(subscription_id, safe='')}{part}"


def _of(subscription_id: str, rules: Iterable[RuleShape]) -> Mapping[str, object]:
    return {"subscription_id": subscription_id, "rules": list(rules)}
