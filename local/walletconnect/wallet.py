"""A simulated wallet with notifications: one account on one phone, in either generation of the protocol.

It checks all that it is answered and sent, and acknowledges it.

    async with Wallet(EthereumAccount("Alice"), Surroundings(relay.url, keys.url, localhost.client_context())) as alice:
        await alice.register("wallet.example")
        subscription = await alice.subscribe(dapp, [promotions.id])
        message = await alice.message()
        await alice.delete(subscription, "too many of them")
"""

import asyncio
import ssl
from asyncio import wait_for
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import count
from time import time
from types import TracebackType
from typing import Any, Self

import httpx

from local.walletconnect.account import EthereumAccount
from local.walletconnect.acts import ACTS, CHANGED, RECEIPTS, Acknowledgement, Generation, WalletAct
from local.walletconnect.codec import JsonObject, did_web, raw_key, shared_key
from local.walletconnect.conversation import Conversation, WalletMessage, WalletSubscription
from local.walletconnect.dapp import Dapp
from local.walletconnect.identity import UnexpectedClaims, WalletIdentity, token_hash
from local.walletconnect.socket import RelaySocket, background_tasks, connected

PATIENCE_S = 300.0


class WalletRefusal(Exception):  # noqa: N818 - what the server answered
    """The server answers a request with an error."""


@dataclass(frozen=True)
class Surroundings:
    """What a wallet talks to."""

    relay_url: str
    key_server_url: str
    context: ssl.SSLContext


class Wallet:
    """An async context manager: it is connected to the relay inside. While `silent`, it acknowledges no message."""

    def __init__(
        self, account: EthereumAccount, surroundings: Surroundings, generation: Generation = Generation.SHIPPED
    ) -> None:
        self.identity = WalletIdentity(account, generation, surroundings.key_server_url)
        self.silent = False
        self._surroundings = surroundings
        self._acts = ACTS[generation]
        self._ids = count(int(1_000_000 * time()))
        self._conversations: dict[str, Conversation] = {}
        self._answers: dict[int, asyncio.Future[JsonObject]] = {}
        self._received: set[str] = set()
        self._messages = asyncio.Queue[WalletMessage]()
        self._changes = asyncio.Queue[Sequence[JsonObject]]()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        url, context = self._surroundings.relay_url, self._surroundings.context
        self._relay: RelaySocket = await self._stack.enter_async_context(connected(url, self._receive, context))
        # Ends before the connection does, by which acknowledgements are published.
        self._tasks = await self._stack.enter_async_context(background_tasks())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @property
    def account(self) -> str:
        return self.identity.account.caip10

    def act(self, what: str) -> WalletAct:
        return self._acts[what]

    async def register(self, domain: str, *, all_apps: bool = True) -> None:
        """Have the key server know the identity key, for the app of this domain or for all."""
        async with httpx.AsyncClient(verify=self._surroundings.context, trust_env=False) as http:
            cacao = self.identity.cacao(domain, all_apps=all_apps)
            answer = await http.post(f"{self._surroundings.key_server_url}/identity", json={"cacao": cacao})
        answer.raise_for_status()

    async def watch(self, server: Dapp, app: str | None = None) -> Sequence[JsonObject]:
        """The account's subscriptions, to one app or to all. Of changes the wallet is told from now on."""
        claims = {"app": did_web(app) if app else None}
        answer, _ = await self._ask("watch", await self.begin(server), **claims)
        return _subscriptions(answer)

    async def subscribe(self, dapp: Dapp, scope: Iterable[str]) -> WalletSubscription:
        scope, begun = list(scope), await self.begin(dapp)
        answer, token = await self._ask("subscribe", begun, scp=" ".join(scope))
        subscription = WalletSubscription(dapp, self._notify_key(answer, begun), None, scope, token_hash(token))
        await self._follow(subscription)
        return subscription

    async def update(self, subscription: WalletSubscription, scope: Iterable[str]) -> WalletSubscription:
        scope = list(scope)
        answer, token = await self._ask("update", subscription, scp=" ".join(scope))
        updated = replace(subscription, scope=scope, hash=token_hash(token))
        self._expect_hash(answer, updated)
        self._conversations[updated.topic] = updated
        return updated

    async def delete(self, subscription: WalletSubscription, reason: str) -> None:
        """What was shipped tells nobody the reason."""
        claims = {"sub": reason} if self.identity.generation is Generation.DOCUMENT else {}
        answer, _ = await self._ask("delete", subscription, **claims)
        self._expect_hash(answer, subscription)

    async def history(
        self, subscription: WalletSubscription, limit: int = 50, *, after: str | None = None, unread_first: bool = True
    ) -> JsonObject:
        """With `nfs`, the notifications, and `mre` and `mur`, whether there are more, or more unread ones."""
        answer, _ = await self._ask("history", subscription, lmt=limit, aft=after, urf=unread_first)
        return answer

    async def mark_as_read(self, subscription: WalletSubscription, ids: Sequence[str] | None = None) -> None:
        """All, unless some are named."""
        await self._ask("mark_as_read", subscription, all=ids is None, ids=ids)

    async def message(self) -> WalletMessage:
        """The next one. Raises `TimeoutError`, as all do that wait for the server."""
        return await wait_for(self._messages.get(), PATIENCE_S)

    async def change(self) -> Sequence[JsonObject]:
        """The account's subscriptions, as a watcher is told of the next change."""
        return await wait_for(self._changes.get(), PATIENCE_S)

    async def begin(self, dapp: Dapp) -> Conversation:
        """Agree on a key by which requests can be sent."""
        begun = Conversation.begun(dapp)
        await self._follow(begun)
        return begun

    async def submit(self, act: WalletAct, token: str, conversation: Conversation) -> JsonObject:
        """The claims of the answer to a request. Raises `WalletRefusal`."""
        answer = await self._answer_to(await self.send(act, token, conversation))
        if "result" not in answer:
            raise WalletRefusal(f"{act.name}: {answer.get('error')}")
        return self.identity.answer(answer["result"][act.answered_in], act, conversation.dapp)

    async def send(self, act: WalletAct, token: str, conversation: Conversation) -> int:
        """The request's id, once it is published. Nobody waits for an answer."""
        number = next(self._ids)
        request = {"id": number, "jsonrpc": "2.0", "method": act.method, "params": {act.field: token}}
        sealed = conversation.seal_request(request)
        await self._relay.publish(conversation.request_topic, sealed, tag=act.tag, ttl=act.ttl)
        return number

    def opened(self, topic: str, envelope: str) -> JsonObject:
        """What a push or the relay brings; raises `KeyError` for a topic of somebody else's."""
        return self._conversations[topic].opened(envelope)

    async def _ask(self, what: str, conversation: Conversation, **claims: Any) -> tuple[JsonObject, str]:
        """The claims of the answer, and the request's JWT. Raises `WalletRefusal`."""
        act = self._acts[what]
        token = self.identity.request(act, conversation.dapp, **claims)
        return await self.submit(act, token, conversation), token

    async def _answer_to(self, number: int) -> JsonObject:
        answer = self._answers.setdefault(number, asyncio.get_running_loop().create_future())
        return await wait_for(answer, PATIENCE_S)

    def _notify_key(self, answer: JsonObject, begun: Conversation) -> bytes:
        """Agreed upon with a key of the server's in the document's generation, given by it in the other."""
        if self.identity.generation is Generation.DOCUMENT and begun.own:
            return shared_key(begun.own, raw_key(answer["sub"]))
        [key] = [each["symKey"] for each in _subscriptions(answer) if each["appDomain"] == begun.dapp.domain]
        return bytes.fromhex(key)

    def _expect_hash(self, answer: JsonObject, subscription: WalletSubscription) -> None:
        if self.identity.generation is Generation.DOCUMENT and answer["sub"] != subscription.hash:
            raise UnexpectedClaims(f"not the subscription's hash: {answer['sub']}")

    async def _follow(self, conversation: Conversation) -> None:
        self._conversations[conversation.topic] = conversation
        await self._relay.subscribe(conversation.topic)

    def _receive(self, topic: str, envelope: str) -> None:
        """The relay may show anything again."""
        if envelope in self._received:
            return
        self._received.add(envelope)
        conversation, content = self._conversations[topic], self.opened(topic, envelope)
        match content:
            case {"method": "wc_notifyMessage", "id": int(number), "params": {"messageAuth": str(token)}}:
                self._take_message(conversation, number, token)
            case {
                "method": "wc_notifySubscriptionsChanged",
                "id": int(number),
                "params": {"subscriptionsChangedAuth": str(token)},
            }:
                self._changes.put_nowait(_subscriptions(self.identity.change(token, conversation.dapp)))
                self._acknowledge(conversation, number, CHANGED, self.identity.acknowledgement(conversation.dapp))
            case {"id": int(number)} if "method" not in content:
                self._take_answer(number, content)

    def _take_message(self, conversation: Conversation, number: int, token: str) -> None:
        message = WalletMessage(conversation.topic, self.identity.message(token, conversation.dapp))
        if isinstance(conversation, WalletSubscription) and self.identity.generation is Generation.DOCUMENT:
            self._expect_hash(message.claims, conversation)
        self._messages.put_nowait(message)
        if not self.silent:
            receipt = self.identity.receipt(conversation.dapp, message.content)
            self._acknowledge(conversation, number, RECEIPTS[self.identity.generation], receipt)

    def _take_answer(self, number: int, content: JsonObject) -> None:
        answer = self._answers.setdefault(number, asyncio.get_running_loop().create_future())
        if not answer.done():
            answer.set_result(content)

    def _acknowledge(self, conversation: Conversation, number: int, how: Acknowledgement, token: str) -> None:
        content = {"id": number, "jsonrpc": "2.0", "result": {how.field: token}}
        sealed = conversation.seal(content)
        self._tasks.create_task(self._relay.publish(conversation.topic, sealed, tag=how.tag, ttl=how.ttl))


def _subscriptions(answer: Mapping[str, Any]) -> Sequence[JsonObject]:
    subscriptions: Sequence[JsonObject] = answer["sbs"]
    return subscriptions
