"""An agent: a device's half of notifications, as the document has it.

A token goes through TNEW, the code that a push brings, and TVFY. From then on each queue goes from step to step:

    SMP_KEY     NKEY at its SMP server, then CREATE
    CREATE      SNEW at the notification server, then CHECK
    CHECK       SCHK now and then; an end, a deletion or an unknown subscription is SMP_KEY again
    SMP_DELETE  NDEL at its SMP server, then nothing

What is to be done next is saved before it is done, so that an agent that is started anew goes on with it.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from local.simplex.agent_smp import SmpPool
from local.simplex.agent_state import AgentMode, AgentQueue, AgentState, AgentToken, QueueStep, TokenStep
from local.simplex.client import CommandRefusedError, SimplexClient
from local.simplex.keys import AuthKey, pkcs8
from local.simplex.ntf_commands import NtfConversation
from local.simplex.pushes import AgentNotification, items_in, notifications, opened
from local.simplex.stream import SimplexAddress

INTERVAL_MIN = 20
"""Of periodic pushes, the least that servers allow."""
_AUTH = "AUTH"
_GOING_ON = {"NEW", "PENDING", "ACTIVE", "INACTIVE", "SERVICE"}
"""Statuses of a subscription that needs nothing."""


class Agent:
    """A context manager. `host` and `port` are where the notification server is reached, if not by its address.

    What a server refuses, and the agent has no answer to, raises `CommandRefusedError`; an end of a connection raises
    `ConnectionLostError`: call again what was called.
    """

    def __init__(
        self,
        state: AgentState,
        ntf: SimplexAddress,
        *,
        host: str | None = None,
        port: int | None = None,
        version: int = 3,
    ) -> None:
        self.state = state
        self.smp = SmpPool()
        self._ntf = ntf
        self._place = host, port
        self._version = version

    async def __aenter__(self) -> Self:
        await self.smp.__aenter__()
        self._client: SimplexClient | None = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.smp.__aexit__(kind, error, trace)
        await self._disconnect()

    @property
    def token(self) -> AgentToken:
        """Raises `LookupError` if none was registered."""
        if self.state.token is None:
            raise LookupError("no token is registered")
        return self.state.token

    async def register(
        self,
        device_token: str,
        mode: AgentMode = AgentMode.INSTANT,
        *,
        provider: str = "AP",
        key: AuthKey | None = None,
    ) -> None:
        """As the app does at each start, and whenever the device's token or the mode changes."""
        if self.state.token is None:
            own, dh = key or Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
            self.state.token = AgentToken(provider, device_token, mode, pkcs8(own), pkcs8(dh))
        self.token.mode = mode
        self.state.save()
        if self.token.device_token == device_token or self.token.step is TokenStep.REGISTER:
            self.token.device_token = device_token
            await self._go_on()
        else:
            await self._replace(device_token)

    async def pushed(self, payload: Mapping[str, Any]) -> list[AgentNotification]:
        """What a push says of messages that wait; one with a code goes on with the registration instead."""
        match payload["notificationData"]:
            case {"verification": _} as data:
                await self._verify(opened(self.token.secret, data, "verification"))
            case {"message": _} as data:
                return notifications(items_in(opened(self.token.secret, data, "message")), self.state.queues)
        return []

    async def fetch(self, notification: AgentNotification) -> list[tuple[bytes, bytes]]:
        """The messages of its queue, after which it is no news any more."""
        found = await self.smp.fetch(notification.queue)
        queue = notification.queue
        queue.last_seen = max(queue.last_seen or 0, notification.message_at)
        self.state.save()
        return found

    async def add_queue(self, server: SimplexAddress) -> AgentQueue:
        """With notifications from the next `work` on, if there is a token for them."""
        queue = await self.smp.open_queue(server)
        self.state.queues.append(queue)
        if self._is_instant:
            queue.step = QueueStep.SMP_KEY
        self.state.save()
        return queue

    async def remove_queue(self, queue: AgentQueue) -> None:
        if queue.subscription_id:
            await (await self._conversation()).unsubscribe(queue)
        await self.smp.delete(queue)
        self.state.queues.remove(queue)
        self.state.save()

    async def check(self) -> None:
        """Ask for the status of all subscriptions; `work` mends those that have ended."""
        await self._check([each for each in self.state.queues if each.step is QueueStep.CHECK])

    async def work(self) -> None:
        """Take each queue's next step until none is left but to check it now and then."""
        for queue in self.state.queues:
            while queue.step in _WORK and (self._is_instant or queue.step is QueueStep.SMP_DELETE):
                await _WORK[queue.step](self, queue)
                self.state.save()

    @property
    def token_is_registered(self) -> bool:
        return self.state.token is not None and bool(self.state.token.id)

    async def delete_token(self) -> None:
        await (await self._conversation()).delete()
        self.state.token = None
        for queue in self.state.queues:
            queue.step = QueueStep.SMP_DELETE if queue.notifier_id else None
        self.state.save()

    async def status(self) -> str:
        """Of the token, as the server says."""
        return await (await self._conversation()).check()

    @property
    def _is_instant(self) -> bool:
        token = self.state.token
        return token is not None and token.active and token.mode is AgentMode.INSTANT

    async def _go_on(self) -> None:
        """With the same device token, from the step that is next."""
        match self.token.step:
            case TokenStep.REGISTER | TokenStep.WAIT:
                await self._register()
            case TokenStep.VERIFY:
                await self._verify(self.token.code)
            case TokenStep.CHECK:
                await self._apply_mode(await self.status())

    async def _register(self) -> None:
        """Once more with the same keys: the server answers with what it did before, and sends the same code."""
        conversation = await self._conversation()
        self.token.id, self.token.secret = await conversation.register()
        self.token.step = TokenStep.WAIT
        self.state.save()

    async def _replace(self, device_token: str) -> None:
        """A server that does not know the token gets a new one."""
        try:
            await (await self._conversation()).replace(device_token)
        except CommandRefusedError as refusal:
            if refusal.error != _AUTH:
                raise
            self._start_anew(device_token)
            await self._register()
        self.token.device_token, self.token.step, self.token.active = device_token, TokenStep.WAIT, False
        self.state.save()

    def _start_anew(self, device_token: str) -> None:
        key, dh = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        self.state.token = AgentToken(self.token.provider, device_token, self.token.mode, pkcs8(key), pkcs8(dh))
        for queue in self.state.queues:
            queue.step = QueueStep.SMP_KEY if queue.step is QueueStep.CHECK else queue.step

    async def _verify(self, code: bytes) -> None:
        self.token.code, self.token.step = code, TokenStep.VERIFY
        self.state.save()
        await (await self._conversation()).verify()
        self.token.step, self.token.active = TokenStep.CHECK, True
        await self._apply_mode("ACTIVE")

    async def _apply_mode(self, status: str) -> None:
        """Instant: each queue is followed. Periodic: none is, and the device wakes now and then."""
        self.token.active = status == "ACTIVE"
        if self.token.active:
            await (await self._conversation()).set_interval(INTERVAL_MIN)
        for queue in self.state.queues:
            if self._is_instant and queue.step in {None, QueueStep.SMP_DELETE}:
                queue.step = QueueStep.SMP_KEY
            if self.token.mode is AgentMode.PERIODIC and queue.step is not None:
                queue.step = QueueStep.SMP_DELETE
        self.state.save()

    async def _check(self, queues: list[AgentQueue]) -> None:
        for queue, status in zip(queues, await (await self._conversation()).statuses(queues), strict=True):
            queue.status = status
            if status not in _GOING_ON:
                queue.step = QueueStep.SMP_KEY
        self.state.save()

    async def _take_key(self, queue: AgentQueue) -> None:
        queue.forget_notifier()
        await self.smp.enable(queue)
        queue.step = QueueStep.CREATE

    async def _create(self, queue: AgentQueue) -> None:
        queue.subscription_id = await (await self._conversation()).subscribe(queue)
        queue.step = QueueStep.CHECK

    async def _delete(self, queue: AgentQueue) -> None:
        await self.smp.disable(queue)
        queue.forget_notifier()
        queue.step = None

    async def _conversation(self) -> NtfConversation:
        """By a connection that is made anew where the last one has ended."""
        if self._client is None or not self._client.alive:
            await self._disconnect()
            host, port = self._place
            self._client = await SimplexClient.of_ntf(self._ntf, host=host, port=port, most=self._version)
            await self._client.__aenter__()
        return NtfConversation(self._client, self.token)

    async def _disconnect(self) -> None:
        if client := self._client:
            self._client = None
            await client.__aexit__(None, None, None)


_WORK = {QueueStep.SMP_KEY: Agent._take_key, QueueStep.CREATE: Agent._create, QueueStep.SMP_DELETE: Agent._delete}  # noqa: SLF001 - their table
