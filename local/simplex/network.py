"""SimpleX on this machine: two SMP servers, and where agents find our notification server."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

from local.command_line import operate
from local.emulator import EmulatedDeployment
from local.ports import reserved_port
from local.simplex.smp_server import StandInSmpServer
from local.simplex.stream import SimplexAddress

_HERE = "localhost"


@dataclass(frozen=True)
class SimplexNetwork:
    """`port` is the notification server's, a process of its own; `app` is whose device tokens it pushes to."""

    smp: Sequence[StandInSmpServer]
    port: int
    app: str

    @classmethod
    async def started(cls, stack: AsyncExitStack, app: str) -> Self:
        servers = [await stack.enter_async_context(StandInSmpServer()) for _ in range(2)]
        return cls(servers, stack.enter_context(reserved_port()), app)

    @property
    def options(self) -> dict[str, Any]:
        """What a deployment says of the notification server that it is."""
        return {"app": self.app, "hosts": [_HERE], "port": self.port, "allow_loopback": True}

    def address(self, deployment: EmulatedDeployment) -> SimplexAddress:
        """As an operator prints it for users."""
        return _address(deployment, str(self.port))


@cache
def _address(deployment: EmulatedDeployment, port: str) -> SimplexAddress:
    printed = operate(deployment.emulator, "simplex", "address", _HERE, "--port", port)
    return SimplexAddress.parsed(printed["address"])
