import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements.payload import StatementBody
from clarion.own_pushes import WakeUpBody
from clarion.providers.apns import KEPT_SECONDS, ApnsApp, ApnsPush, PushType
from clarion.providers.fcm import MAX_TTL, FcmApp, FcmPush
from clarion.providers.webpush import WebPushApp, WebPushPush
from clarion.tables import Subscription
from dispatch.pushes import Stale, build, obstacle, push_id, useful_until

if TYPE_CHECKING:
    from clarion.providers.vapid import VapidCredential

NOW = 1_800_000_000
TOKEN = "a1" * 32
P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
DEVICE_KEY = X25519PrivateKey.generate().public_key().public_bytes_raw()
ENDPOINT = json.dumps(
    {"endpoint": "https://fcm.googleapis.com/fcm/send/x", "p256dh": P256DH, "auth": "BTBZMqHH6r4Tts7J_aSIgg"}
)
BROWSERS = WebPushApp(cast("VapidCredential", None), name="first")
BODY = StatementBody(sender=b"s" * 32, topic=b"t" * 32, data=b"hello")


@pytest.fixture
def message() -> Callable[..., PushMessage]:
    def message(channel: Channel = Channel.APNS, **changes: Any) -> PushMessage:
        content = {
            "network": STATEMENTS,
            "receipt": uuid4(),
            "observed_at": NOW * 1000,
            "envelope_id": b"h" * 32,
            "subscription_id": UUID(int=7),
            "client_id": b"c" * 32,
            "channel": channel,
            "body": BODY,
            "expires_at": NOW + 3600,
        }
        return PushMessage.model_validate(content | changes)

    return message


def apns_of(message: PushMessage, app: ApnsApp) -> ApnsPush:
    push = build(message, Subscription(token=TOKEN), app, now=NOW)
    assert isinstance(push, ApnsPush)
    return push


def fcm_of(message: PushMessage, app: FcmApp) -> FcmPush:
    push = build(message, Subscription(token=TOKEN), app, now=NOW)
    assert isinstance(push, FcmPush)
    return push


def test_a_repeated_notification_makes_the_same_push(message: Callable[..., PushMessage], apns_app: ApnsApp) -> None:
    first, again = (apns_of(message(), apns_app) for _ in range(2))

    assert first == again
    assert first.collapse_id == (b"h" * 32).hex()
    assert len(first.collapse_id) <= 64


def test_each_subscription_and_each_statement_has_a_push_id_of_its_own(message: Callable[..., PushMessage]) -> None:
    messages = [message(), message(subscription_id=UUID(int=8)), message(envelope_id=b"i" * 32)]

    assert len({push_id(one) for one in messages}) == 3


def test_a_push_id_is_a_lower_case_uuid(message: Callable[..., PushMessage]) -> None:
    name = push_id(message())

    assert str(UUID(name)) == name
    assert UUID(name).version == 8


def test_apple_keeps_an_alert_until_its_statement_expires(
    message: Callable[..., PushMessage], apns_app: ApnsApp
) -> None:
    assert apns_of(message(expires_at=NOW + 60), apns_app).expiration == NOW + 60


def test_apple_is_never_asked_to_keep_an_alert_longer_than_it_would(
    message: Callable[..., PushMessage], apns_app: ApnsApp
) -> None:
    assert apns_of(message(expires_at=2**32 - 1), apns_app).expiration == NOW + KEPT_SECONDS


def test_a_call_is_never_kept(message: Callable[..., PushMessage], apns_app: ApnsApp) -> None:
    push = apns_of(message(Channel.VOIP), apns_app)

    assert (push.expiration, push.push_type) == (0, PushType.VOIP)


def test_a_wake_up_takes_the_place_of_no_alert_that_apple_keeps(
    message: Callable[..., PushMessage], apns_app: ApnsApp, fcm_app: FcmApp
) -> None:
    changes = {"purpose": Purpose.WAKE_UP, "wanted": Wanted.BACKGROUND, "body": WakeUpBody()}
    push = apns_of(message(**changes), apns_app)
    assert (push.expiration, push.push_type) == (0, PushType.BACKGROUND)
    behind_fcm = fcm_of(message(Channel.FCM, **changes), fcm_app)
    assert (behind_fcm.expires_at, behind_fcm.ttl) == (0, 3600)


def test_a_rule_never_changes_how_an_iphone_is_pushed(message: Callable[..., PushMessage], apns_app: ApnsApp) -> None:
    for channel in (Channel.APNS, Channel.VOIP):
        alert, call = (apns_of(message(channel, wanted=wanted), apns_app) for wanted in (Wanted.ALERT, Wanted.CALL))
        assert alert == call


def test_firebase_keeps_a_message_for_four_weeks_at_most(message: Callable[..., PushMessage], fcm_app: FcmApp) -> None:
    assert fcm_of(message(Channel.FCM), fcm_app).ttl == 3600
    assert fcm_of(message(Channel.FCM, expires_at=2**32 - 1), fcm_app).ttl == MAX_TTL


def test_firebase_keeps_a_call_only_while_the_caller_waits(
    message: Callable[..., PushMessage], fcm_app: FcmApp
) -> None:
    call = message(Channel.FCM, wanted=Wanted.CALL, observed_at=(NOW - 12) * 1000)

    assert fcm_of(call, fcm_app).ttl == 18


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"channel": Channel.VOIP}, 30),
        ({"channel": Channel.FCM, "wanted": Wanted.CALL}, 30),
        ({"channel": Channel.VOIP, "expires_at": NOW + 5}, 5),
        ({"channel": Channel.VOIP, "replayed_since": (NOW - 12) * 1000}, 18),
        ({"channel": Channel.FCM, "wanted": Wanted.CALL, "replayed_since": (NOW - 12) * 1000}, 18),
        ({"channel": Channel.APNS}, 3600),
        ({"channel": Channel.APNS, "wanted": Wanted.CALL}, 3600),
        ({"channel": Channel.VOIP, "wanted": Wanted.ALERT}, 30),
        ({"channel": Channel.FCM}, 3600),
        ({"channel": Channel.APNS, "replayed_since": 0}, 3600),
    ],
)
def test_a_push_is_of_use_until_the_caller_has_gone_or_the_statement_expires(
    message: Callable[..., PushMessage], changes: dict[str, Any], seconds: int
) -> None:
    assert useful_until(message(**changes)) == NOW + seconds
    assert obstacle(message(**changes), None, NOW + seconds - 0.1) != Stale(reason="expired")
    assert isinstance(obstacle(message(**changes), None, NOW + seconds), Stale)


@pytest.mark.parametrize("replayed_since", [0, (NOW - 600) * 1000], ids=["unknown", "ten minutes ago"])
def test_a_replayed_call_is_as_old_as_the_time_since_a_node_was_last_live(
    message: Callable[..., PushMessage], replayed_since: int
) -> None:
    call = message(Channel.VOIP, replayed_since=replayed_since)

    assert obstacle(call, None, NOW) == Stale(reason="call")


def test_an_envelopes_id_stays_out_of_what_is_encrypted(message: Callable[..., PushMessage], apns_app: ApnsApp) -> None:
    sealed = build(message(), Subscription(token=TOKEN, device_key=DEVICE_KEY), apns_app, now=NOW)
    to_browser = build(message(Channel.WEBPUSH), Subscription(token=ENDPOINT), BROWSERS, now=NOW)

    assert isinstance(sealed, ApnsPush)
    assert isinstance(to_browser, WebPushPush)
    assert sealed.collapse_id == to_browser.collapse_id == push_id(message())
