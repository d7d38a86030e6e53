"""Who takes part in the story that `make demo` plays."""

from dataclasses import dataclass, field

from local.browser import BrowserSubscription
from local.device import Device
from local.system import System
from local.xmtp_device import ChatGroup, Inbox, InstalledApp, Mechanism


@dataclass(frozen=True)
class Friends:
    """Of XMTP: Alix with a phone and a tablet, Bo with a phone, and the group that they are in."""

    alix: Inbox = field(default_factory=lambda: Inbox("Alix"))
    bo: Inbox = field(default_factory=lambda: Inbox("Bo"))
    group: ChatGroup = field(default_factory=lambda: ChatGroup("Alix and Bo"))
    phone: str = "a11" + "d3" * 30 + "0"
    tablet: str = "alix-" + "X" * 140
    friends_phone: str = "b0" * 32

    async def register(self, system: System) -> None:
        """Each installation for itself, with the keys of its inbox."""
        ways = (
            (InstalledApp(self.alix, "phone"), Mechanism.APNS, self.phone),
            (InstalledApp(self.alix, "tablet"), Mechanism.FCM, self.tablet),
            (InstalledApp(self.bo, "phone"), Mechanism.APNS, self.friends_phone),
        )
        for app, mechanism, token in ways:
            async with system.notifications_of(app.device) as client:
                await app.register(client, mechanism, token)
                await app.subscribe(client, [app.subscription_to(self.group), app.welcomes])


@dataclass
class Cast:
    """Of the statement store, and of XMTP. The browser is what the first scene registers."""

    alice: Device = field(default_factory=lambda: Device("Alice"))
    bob: Device = field(default_factory=lambda: Device("Bob"))
    carol: Device = field(default_factory=lambda: Device("Carol"))
    dave: Device = field(default_factory=lambda: Device("Dave"))
    mallory: Device = field(default_factory=lambda: Device("Mallory"))
    browser: BrowserSubscription | None = None
    friends: Friends = field(default_factory=Friends)
