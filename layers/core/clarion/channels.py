"""The channels that pushes go by and the providers behind them, and what is particular to each: the two tables of it."""

from enum import Enum, StrEnum
from typing import NamedTuple

from clarion.decisions import Wanted

CALL_SECONDS = 30
"""A phone that rings later than this rings for a caller who has gone."""


class Channel(StrEnum):
    """How a subscription is reached: what kind of address it has, and so which provider its pushes go to."""

    APNS = "apns"
    VOIP = "voip"
    FCM = "fcm"
    WEBPUSH = "webpush"
    WEBHOOK = "webhook"


class Provider(StrEnum):
    """Whose service a channel goes through."""

    APNS = "apns"
    FCM = "fcm"
    WEBPUSH = "webpush"
    WEBHOOK = "webhook"


class Calls(Enum):
    """Which of a channel's pushes are calls: they ring, and are of no use after half a minute."""

    NEVER = 0
    ALWAYS = 1
    AS_WANTED = 2
    """Those that a rule wants as a call: the app presents them by itself."""


class ChannelSpec(NamedTuple):
    """`payload_bytes` is the most that a payload may have. Pushes are sealed if it `takes_device_key`.

    It `wakes` phones in the background at set times. Where each token is to be proven, those of a channel that is
    `always_proven` are also if nobody else has them: a code by VoIP would ring, and a webhook's address names its client.
    With `encrypted`, a push can be read by whom it is for alone, also if it isn't sealed.
    """

    provider: Provider
    payload_bytes: int
    calls: Calls
    takes_device_key: bool = True
    wakes: bool = False
    always_proven: bool = False
    encrypted: bool = False

    @property
    def has_held_queue(self) -> bool:
        """Whether what waits for an app to be configured has a queue beside. A call is stale before anybody can do so."""
        return self.calls is not Calls.ALWAYS


class ProviderSpec(NamedTuple):
    """`secret` says what a provider's secret holds for an app, and `sandbox_secret` what a second one for its sandbox.

    `addresses` are dispatch's settings that name where it is reached instead. With `takes_direct_pushes` they go there,
    too, and have these settings as well. One that `ends_subscriptions` may say of an address that it is dead.
    """

    secret: str
    sandbox_secret: str | None = None
    addresses: tuple[str, ...] = ()
    takes_direct_pushes: bool = True
    ends_subscriptions: bool = True


PROVIDERS = {
    Provider.APNS: ProviderSpec(
        "The key that signs provider tokens for APNs, for alerts and calls",
        sandbox_secret="The same for Apple's sandbox",  # noqa: S106 - it describes one
        addresses=("apns_url", "apns_sandbox_url"),
    ),
    Provider.FCM: ProviderSpec("The service account that sends by FCM", addresses=("fcm_url",)),
    Provider.WEBPUSH: ProviderSpec(
        "The VAPID key that signs for browsers' push services, and whom they may write to",
        takes_direct_pushes=False,
    ),
    Provider.WEBHOOK: ProviderSpec(
        "What the webhook's owner knows requests by: the Authorization header, and the key that signs them",
        addresses=("webhook_stand_in_url",),
        takes_direct_pushes=False,
        ends_subscriptions=False,
    ),
}

CHANNELS = {
    # https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification
    Channel.APNS: ChannelSpec(Provider.APNS, 4096, Calls.NEVER, wakes=True, always_proven=True),
    Channel.VOIP: ChannelSpec(Provider.APNS, 5120, Calls.ALWAYS),
    # The keys and values of its data: https://firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type
    Channel.FCM: ChannelSpec(Provider.FCM, 4096, Calls.AS_WANTED, wakes=True, always_proven=True),
    # What an encrypted record of 4,096 bytes has room for: https://www.rfc-editor.org/rfc/rfc8291#section-4
    Channel.WEBPUSH: ChannelSpec(Provider.WEBPUSH, 3993, Calls.NEVER, always_proven=True, encrypted=True),
    # Our own: with its message about it, a push is one request of 64 KiB to SQS, and costs as much as any other.
    Channel.WEBHOOK: ChannelSpec(Provider.WEBHOOK, 60 * 1024, Calls.NEVER, takes_device_key=False),
}


def is_call(channel: Channel, wanted: Wanted) -> bool:
    calls = CHANNELS[channel].calls
    return calls is Calls.ALWAYS or (calls is Calls.AS_WANTED and wanted is Wanted.CALL)
