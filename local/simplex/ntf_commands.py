"""What an agent says to a notification server about its token and its queues, and what it reads in the answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import batched

from local.simplex.agent_state import AgentQueue, AgentToken
from local.simplex.client import SimplexClient
from local.simplex.codec import WireReader, several, short, u16
from local.simplex.keys import AuthKey, SharedBox, auth_key, dh_key, dh_public_key, spki
from local.simplex.transmissions import WireTransmission

_AT_ONCE = 150
"""Subscriptions that are checked together."""


@dataclass(frozen=True)
class NtfConversation:
    """An agent's token, and a connection to the server. What the server refuses raises `CommandRefusedError`."""

    client: SimplexClient
    token: AgentToken

    async def register(self) -> tuple[bytes, bytes]:
        """The token's id, and the secret of its pushes."""
        own = dh_key(self.token.dh_key)
        keys = short(spki(self._key.public_key())) + short(spki(own.public_key()))
        answer = await self.client.ask(b"TNEW T" + self._device(self.token.device_token) + keys, key=self._key)
        reader = WireReader(answer)
        reader.expect(b"IDTKN ")
        token_id, server_key = reader.short(), dh_public_key(reader.short())
        reader.end()
        return token_id, SharedBox.between(own, server_key).secret

    async def verify(self) -> None:
        await self._ok(b"TVFY " + short(self.token.code))

    async def check(self) -> str:
        """The token's status, with the reason if it has one."""
        return await self._text(b"TCHK", b"TKN ", self.token.id)

    async def replace(self, device_token: str) -> None:
        await self._ok(b"TRPL " + self._device(device_token))

    async def delete(self) -> None:
        await self._ok(b"TDEL")

    async def set_interval(self, minutes: int) -> None:
        """Of periodic pushes: none if it is 0."""
        await self._ok(b"TCRN " + u16(minutes))

    async def subscribe(self, queue: AgentQueue) -> bytes:
        """The subscription's id."""
        server = queue.server
        place = several([short(host.encode()) for host in server.hosts]) + short(server.port.encode())
        command = b"SNEW S" + short(self.token.id) + place + short(server.key_hash) + short(queue.notifier_id)
        reader = WireReader(await self.client.ask(command + short(queue.notifier_key), key=self._key))
        reader.expect(b"IDSUB ")
        subscription_id = reader.short()
        reader.end()
        return subscription_id

    async def statuses(self, queues: Iterable[AgentQueue]) -> list[str]:
        """Of their subscriptions, in order; for what is refused the error stands in the status' place."""
        found = list[str]()
        for some in batched(queues, _AT_ONCE, strict=False):
            asked = [WireTransmission.asking(b"SCHK", each.subscription_id) for each in some]
            answers = await self.client.exchange([self.client.authorized(each, self._key) for each in asked])
            found += [_status(each.command) for each in answers]
        return found

    async def unsubscribe(self, queue: AgentQueue) -> None:
        answer = await self.client.ask(b"SDEL", queue.subscription_id, self._key)
        WireReader(answer).expect(b"OK")

    def _device(self, device_token: str) -> bytes:
        return self.token.provider.encode() + short(device_token.encode())

    @property
    def _key(self) -> AuthKey:
        return auth_key(self.token.key)

    async def _ok(self, command: bytes) -> None:
        reader = WireReader(await self.client.ask(command, self.token.id, self._key))
        reader.expect(b"OK")
        reader.end()

    async def _text(self, command: bytes, prefix: bytes, entity: bytes) -> str:
        reader = WireReader(await self.client.ask(command, entity, self._key))
        reader.expect(prefix)
        return reader.rest().decode()


def _status(answer: bytes) -> str:
    """`SUB ` is followed by the status; an error is as it came, with its ERR."""
    return answer.removeprefix(b"SUB ").decode()


async def ping(client: SimplexClient) -> None:
    WireReader(await client.ask(b"PING")).expect(b"PONG")
