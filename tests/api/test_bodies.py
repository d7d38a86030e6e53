"""Whatever a client sends, the answer is about the request: never a 5xx."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROUTES = [
    ("POST", "/v1/subscriptions"),
    ("DELETE", "/v1/subscriptions"),
    ("GET", "/v1/subscriptions"),
    ("PUT", "/v1/subscriptions/rules"),
    ("POST", "/v1/subscriptions/rules"),
    ("DELETE", "/v1/subscriptions/rules"),
    ("POST", "/v1/notify"),
    ("POST", "/v1/auth/challenges"),
    ("POST", "/v1/auth/tokens"),
]
FIELDS = [
    *("subscription_id", "rules", "sender_pubkey", "senderPubkey", "topic", "notify_type", "notifyType"),
    *("notificationType", "notification_type", "platform", "token", "app", "environment", "subscription_ids"),
    *("device_key", "deviceKey", "wake_every_minutes", "wakeEveryMinutes", "subscriptionId", "subscriptionIds"),
    *("client_id", "clientId", "challenge", "signature"),
    *("deviceToken", "pushId", "bundlerId", "message", "voip"),
]
SPELLINGS = [("sender_pubkey", "senderPubkey"), ("notificationType", "platform"), ("device_key", "deviceKey")]
KEY = "ab" * 32


def nested(levels: int, opening: str, closing: str) -> str:
    return opening * levels + "1" + closing * levels


DEPTHS = st.sampled_from([1, 50, 500, 3_000, 7_000, 10_000, 50_000])
DEEP = st.builds(nested, DEPTHS, st.just("["), st.just("]")) | st.builds(nested, DEPTHS, st.just('{"a":'), st.just("}"))
"""JSON texts, as Python could not write them."""
TOKENS = st.sampled_from(["apns", "voip", "fcm", "ios", "android", "alert", "sandbox", KEY, f"0x{KEY}", KEY * 2])
ODD = st.sampled_from(
    [
        *("NaN", "Infinity", "-Infinity", "1e400", "-0", "9" * 4_000, "9" * 5_000, '"\\ud800"', '"\\u0000"', '""'),
        *('"\\udfff\\ud800"', '"😀"', "null", "true", "[]", "{}", '"' + "a" * 100_000 + '"', '"2026-11-22T00:00:00Z"'),
    ]
)
SCALARS = st.one_of(
    ODD,
    TOKENS.map(json.dumps),
    st.builds(lambda: json.dumps(str(uuid4()))),
    st.text(max_size=20).map(json.dumps),
    st.integers().map(str),
)


def lists(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, max_size=4).map(lambda texts: f"[{','.join(texts)}]")


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """The same name may come twice, as JSON allows."""
    names = st.sampled_from(FIELDS) | st.text(max_size=5)
    pairs = st.tuples(names.map(json.dumps), values).map(":".join)
    return st.lists(pairs, max_size=8).map(lambda texts: f"{{{','.join(texts)}}}")


VALUES = st.recursive(SCALARS | DEEP, lambda inner: lists(inner) | objects(inner), max_leaves=12)
BODIES = objects(VALUES) | VALUES | st.text(max_size=50)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(route=st.sampled_from(ROUTES), body=BODIES)
def test_whatever_the_body_the_answer_is_no_fault_of_ours(
    client: Any, pushing: Callable[..., Any], route: tuple[str, str], body: str
) -> None:
    client.worker = pushing(pushes_per_minute=100_000)
    answer = client(*route, raw=body)
    assert answer.status < 500, (answer.status, answer.text)


def deepest(opening: str, closing: str) -> int:
    """How many levels Python's parser takes: it is just below that everything else has least left."""
    low, high = 1, 200_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            json.loads(nested(middle, opening, closing))
        except RecursionError:
            high = middle
        else:
            low = middle
    return low


@pytest.mark.parametrize("names", SPELLINGS)
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_two_spellings_however_deep_are_refused(
    client: Any, names: tuple[str, str], opening: str, closing: str
) -> None:
    limit = deepest(opening, closing)
    for levels in range(limit - 60, limit + 2):
        deep = nested(levels, opening, closing)
        fields = ",".join(f'"{name}":{deep}' for name in names)
        registration = client("POST", "/v1/subscriptions", raw=f"{{{fields}}}")
        rule = client("PUT", "/v1/subscriptions/rules", raw=f'{{"subscription_id":"{uuid4()}","rules":[{{{fields}}}]}}')
        assert {registration.status, rule.status} <= {400, 422}


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(cursor=st.text(max_size=120) | st.from_regex(r"^([A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{118})\Z"))
def test_whatever_the_cursor_the_answer_is_no_fault_of_ours(client: Any, cursor: str) -> None:
    answer = client("GET", f"/v1/subscriptions?cursor={quote(cursor)}")
    assert answer.status in {200, 422}


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(parts=st.lists(VALUES | st.text(max_size=20), min_size=1, max_size=4))
def test_whatever_the_bearer_token_it_is_refused_and_not_failed_on(authorizer: Any, parts: list[str]) -> None:
    encoded = (urlsafe_b64encode(part.encode(errors="replace")).rstrip(b"=").decode() for part in parts)
    answer = authorizer({"headers": {"authorization": f"Bearer {'.'.join(encoded)}"}})
    assert set(answer["context"]) == {"refusal"}
