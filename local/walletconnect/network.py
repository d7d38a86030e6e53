"""WalletConnect on this machine: the relay, the key server, and the hosts that its clients ask."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import httpx

from local.command_line import operate
from local.emulator import EmulatedDeployment
from local.http2 import Response, ServedRequest
from local.tls import Localhost
from local.walletconnect.account import EthereumAccount
from local.walletconnect.acts import Generation
from local.walletconnect.client import NotifyClient, notify_client
from local.walletconnect.dapp import Dapp, DappBackend, DappNotificationType, keys_of
from local.walletconnect.hosts import DID_DOCUMENT, NOTIFY, PublicHosts
from local.walletconnect.keys import KeyServer
from local.walletconnect.relay import Relay
from local.walletconnect.wallet import Surroundings, Wallet

_HERE = "localhost"


@dataclass(frozen=True)
class WalletConnectNetwork:
    relay: Relay
    keys: KeyServer
    hosts: PublicHosts
    localhost: Localhost

    @classmethod
    async def started(cls, stack: AsyncExitStack, localhost: Localhost) -> Self:
        return cls(
            relay=await stack.enter_async_context(Relay(localhost)),
            keys=await stack.enter_async_context(KeyServer(localhost)),
            hosts=await stack.enter_async_context(PublicHosts(localhost)),
            localhost=localhost,
        )

    @property
    def options(self) -> dict[str, Any]:
        """What a deployment says of the Notify server that it is."""
        return {
            "domain": NOTIFY,
            "relay_url": self.relay.url.replace("wss", "https"),
            "relay_project_id": "0" * 32,
            "key_servers": [_HERE],
            "private_key_servers": [_HERE],
        }

    def put_before(self, deployment: EmulatedDeployment) -> None:
        """Have the Notify server's host lead to the deployment's API."""
        self.hosts.notify_server = partial(_forwarded, deployment.api_url, deployment.api_host)

    async def notify_server(self) -> Dapp:
        """The Notify server's own keys, from its host: as a dapp without types."""
        url = f"https://{_HERE}:{self.hosts.port}{DID_DOCUMENT}"
        async with httpx.AsyncClient(verify=self.localhost.client_context(), trust_env=False) as http:
            answer = await http.get(url, headers={"Host": NOTIFY})
        answer.raise_for_status()
        return Dapp(NOTIFY, (), keys_of(answer.json()))

    def wallet(self, account: EthereumAccount, generation: Generation = Generation.SHIPPED) -> Wallet:
        surroundings = Surroundings(self.relay.url, self.keys.url, self.localhost.client_context())
        return Wallet(account, surroundings, generation)

    def client(self) -> AbstractAsyncContextManager[NotifyClient]:
        """The client that wallets have."""
        return notify_client(self.relay.url, self.keys.url, self.hosts.port, self.localhost)

    async def dapp(self, backend: DappBackend, domain: str, types: Sequence[DappNotificationType]) -> Dapp:
        """A dapp of the backend's, whose site is there."""
        dapp = await backend.join(domain, types)
        self.hosts.add(dapp)
        return dapp


def new_project(deployment: EmulatedDeployment, name: str, *types: str) -> tuple[str, str, list[DappNotificationType]]:
    """The id and the secret of a project that the operator has added, and its types of notification, by name."""
    words = "walletconnect", "project"
    added = operate(deployment.emulator, *words, "add", name)
    project_id = added["project"]["project_id"]
    made = [operate(deployment.emulator, *words, "type", project_id, "--name", each)["type_id"] for each in types]
    return project_id, added["secret"], [DappNotificationType(*each) for each in zip(types, made, strict=True)]


async def _forwarded(url: str, host: str, request: ServedRequest) -> Response:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        answer = await http.request(request.method, request.path, headers={"Host": host}, content=request.body)
    return Response(answer.status_code, (("content-type", answer.headers["content-type"]),), answer.content)
