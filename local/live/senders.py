"""Who sends in each network, to phones that are registered once somebody looks."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from clarion.channels import Channel
from clarion.networks import SIMPLEX, STATEMENTS, WALLETCONNECT, XMTP, ZULIP
from console.page.app import ActionError
from local.device import Device, topic_of
from local.live.phones import PhoneOnPage, Phones, statement_text, xmtp_text
from local.live.simplex_app import SimplexApp, write
from local.provider import ReceivedPush
from local.simplex_story import simplex_user
from local.system import PATIENCE, System
from local.walletconnect.account import EthereumAccount
from local.walletconnect.story import WalletPhone, dapp_site
from local.xmtp_device import ChatGroup, Inbox, InstalledApp, Mechanism
from local.zulip_client import Phone, ProposedAccount
from local.zulip_devices import TokenKind
from local.zulip_story import self_hosted

ALICE = "Alice, on the page"
CHAT, CALLS = topic_of("the page's chat"), topic_of("the page's calls")
GREETING = b"Hello, this is Alice"
_STORE = "By Polkadot's statement store"
LONGEST = 500
"""Characters of a text to send, where its network has no limit of its own."""
LONGEST_BODY = 255
"""Characters of what a dapp notifies: ../../docs/walletconnect.md."""
MOST_WAITING = 100
"""Texts that are still to be sent, of each sender."""


class Texts:
    """What is still to be sent, of `longest` characters at most, and whether its sender can.

    `begun` is set once it can, or has failed.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest = longest
        self._queue = asyncio.Queue[tuple[str, asyncio.Future[str]]](MOST_WAITING)
        self.begun = asyncio.Event()
        self.failure: str | None = None

    @property
    def ready(self) -> bool:
        return self.begun.is_set() and self.failure is None

    async def send_each(self, send: Callable[[str], Awaitable[object]]) -> None:
        """Never ends: a text that cannot be sent is its own trouble alone."""
        self.begun.set()
        while True:
            text, refusal = await self._queue.get()
            words = ""
            try:
                await send(text)
            except Exception as error:  # noqa: BLE001 - whatever it is, who wrote the text reads it, and others are sent
                words = f"it was not sent: {type(error).__name__}: {error}"[:LONGEST]
            if not refusal.done():
                refusal.set_result(words)

    def fail(self, reason: str) -> None:
        """What still waits is not sent."""
        self.failure = reason
        self.begun.set()
        while not self._queue.empty():
            _, refusal = self._queue.get_nowait()
            if not refusal.done():
                refusal.set_result(reason)

    async def put(self, text: str) -> None:
        """Return once it is sent. Raises `ActionError`."""
        self._check(text)
        refusal = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((text, refusal))
        except asyncio.QueueFull:
            raise ActionError("too much is waiting to be sent") from None
        if words := await refusal:
            raise ActionError(words)

    def _check(self, text: str) -> None:
        if not self.ready:
            raise ActionError(self.failure or "its phones are still being registered")
        if not text.strip() or len(text) > self.longest:
            raise ActionError(f"a text has 1 to {self.longest} characters, and not only spaces")


type Play = Callable[[System, Phones, Texts], Awaitable[None]]
"""Registers phones, then sends each text; never ends."""


@dataclass(frozen=True)
class PageSender:
    """`way` says by which network, and to whom."""

    name: str
    network: str
    title: str
    way: str
    button: str
    play: Play
    texts: Texts = field(default_factory=Texts)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "network": self.network,
            "title": self.title,
            "way": self.way,
            "button": self.button,
            "longest": self.texts.longest,
            "ready": self.texts.ready,
            "failure": self.texts.failure,
        }


def senders() -> list[PageSender]:
    friends, robot = "Bob's iPhone, Carol's Android phone and Carol's browser", "Alix's iPhone and her robot's webhook"
    return [
        PageSender("message", STATEMENTS, "Alice writes to friends", f"{_STORE}, to {friends}", "Send", _statements),
        PageSender("call", STATEMENTS, "Alice calls Bob", f"{_STORE}, to Bob's iPhone, which rings", "Call", _calls),
        PageSender("xmtp", XMTP, "Bo writes to the group", f"By XMTP, to {robot}", "Send", _xmtp),
        PageSender("zulip", ZULIP, "A colleague writes", "By a Zulip server, to Zulip on an iPhone", "Send", _zulip),
        PageSender(
            *("walletconnect", WALLETCONNECT, "A dapp notifies a wallet", "By WalletConnect, to a wallet on an iPhone"),
            *("Notify", _walletconnect, Texts(LONGEST_BODY)),
        ),
        PageSender("simplex", SIMPLEX, "A contact writes to Erin", "By SimpleX, to Erin's iPhone", "Send", _simplex),
    ]


def token_of(name: str) -> str:
    """An APNs token, always the same for the same name, that asks its stand-in for no trouble."""
    return f"f0{blake2b(name.encode(), digest_size=31).hexdigest()}"


async def _statements(system: System, phones: Phones, texts: Texts) -> None:
    """The greeting has the functions started before somebody writes."""
    alice, bob, carol = Device(ALICE), Device("Bob, on the page"), Device("Carol, on the page")
    rule = (alice.public_key, CHAT)
    iphone, android = token_of("Bob"), f"carol-{token_of('Carol')}"
    browser = system.webpush.subscribe(system.application_server_key)
    phones.add(iphone, PhoneOnPage("Bob's iPhone", STATEMENTS, Channel.APNS, statement_text))
    phones.add(android, PhoneOnPage("Carol's Android phone", STATEMENTS, Channel.FCM, statement_text))
    phones.add(browser.endpoint, PhoneOnPage("Carol's browser", STATEMENTS, Channel.WEBPUSH, statement_text))
    await system.register(bob, Channel.APNS, iphone, rule)
    await system.register(carol, Channel.FCM, android, rule)
    await system.register(carol, Channel.WEBPUSH, json.dumps(browser.as_json()), rule)
    await system.store.submit(alice.statement(CHAT, data=GREETING))
    await texts.send_each(lambda text: system.store.submit(alice.statement(CHAT, data=text.encode())))


async def _calls(system: System, phones: Phones, texts: Texts) -> None:
    alice, bob = Device(ALICE), Device("Bob, on the page")
    iphone = token_of("Bob, called")
    phones.add(iphone, PhoneOnPage("Bob's iPhone", STATEMENTS, Channel.VOIP, statement_text))
    await system.register(bob, Channel.VOIP, iphone, (alice.public_key, CALLS))
    await texts.send_each(lambda text: system.store.submit(alice.statement(CALLS, data=text.encode())))


async def _xmtp(system: System, phones: Phones, texts: Texts) -> None:
    """Alix's phone is reached by APNs, her robot by the webhook."""
    alix, bo, group = Inbox("Alix, on the page"), Inbox("Bo, on the page"), ChatGroup("the page's group")
    phone, robot, address = (
        InstalledApp(alix, "phone"),
        InstalledApp(alix, "robot"),
        json.loads(system.webhook.install()),
    )
    ways = (
        (phone, Mechanism.APNS, token_of("Alix"), PhoneOnPage("Alix's iPhone", XMTP, Channel.APNS, xmtp_text)),
        (robot, Mechanism.CUSTOM, address["token"], PhoneOnPage("Alix's robot", XMTP, Channel.WEBHOOK, xmtp_text)),
    )
    for app, mechanism, token, shown in ways:
        phones.add(token, shown)
        async with system.notifications_of(app.device) as client:
            await app.register(client, mechanism, token)
            await app.subscribe(client, [app.subscription_to(group)])

    async def send(text: str) -> None:
        system.xmtp.publish(group.topic, bo.message(group, text.encode()))

    await texts.send_each(send)


async def _zulip(system: System, phones: Phones, texts: Texts) -> None:
    async with self_hosted(system, "page.zulip.example.org") as site:
        realm = site.server.add_realm("Engineering")
        await site.server.join()
        phone = Phone(TokenKind.APNS, token_of("Zulip"), site.release)

        def read(push: ReceivedPush) -> str:
            return str((phone.read(push) or {})["content"])

        phones.add(phone.token, PhoneOnPage("Zulip on an iPhone", ZULIP, Channel.APNS, read))
        await site.register(ProposedAccount, realm, phone)
        await texts.send_each(lambda text: site.server.notify(realm, {"type": "message", "content": text}))


async def _walletconnect(system: System, phones: Phones, texts: Texts) -> None:
    async with (
        dapp_site(system, "page.dapp.example", "Alerts") as site,
        system.walletconnect.wallet(EthereumAccount("Alice, on the page")) as wallet,
    ):
        [alerts] = site.dapp.types
        await wallet.register(site.dapp.domain)
        phone = WalletPhone(system, Device("Alice, with the page's wallet"), token_of("wallet"))

        def read(push: ReceivedPush) -> str:
            opened = wallet.opened(push.payload["topic"], push.payload["message"])
            return str(wallet.identity.message(opened["params"]["messageAuth"], site.dapp)["msg"]["body"])

        phones.add(phone.token, PhoneOnPage("A wallet on an iPhone", WALLETCONNECT, Channel.APNS, read))
        await phone.follow(await wallet.subscribe(site.dapp, [alerts.id]))
        await texts.send_each(lambda text: site.notify(alerts, wallet, body=text))


async def _simplex(system: System, phones: Phones, texts: Texts) -> None:
    async with simplex_user(system, token_of("Erin")) as user:
        app = SimplexApp(user.agent)
        phones.add(token_of("Erin"), PhoneOnPage("Erin's iPhone", SIMPLEX, Channel.APNS, app.read))
        async with asyncio.timeout(PATIENCE):
            await user.phone.register()
        [queue] = await user.followed_queues(1)
        await texts.send_each(lambda text: write(user.agent, queue, text))
