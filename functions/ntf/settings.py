"""What the task reads from its environment."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Json, PositiveFloat, PositiveInt

from ntf.commands.wiring import NtfCommandSettings

DEFAULT_PORT, DEFAULT_HEALTH_PORT = 8974, 8975
"""The task's: the balancer in front of it listens on another port."""


class NtfBounds(BaseModel):
    """How much of a task is given to whom; durations are in seconds.

    `connections`: of a task, at some 35 KB each; `handshakes`: of these, before the agent's hello.
    `connections_per_peer`, `handshakes_per_peer`, `connections_per_second`: of one address, at once, and new ones after as
    many.
    `commands_per_second`, `burst`: that a connection may send, and `peer_commands_per_second`, `peer_burst`: an address. Who
    sends more is answered later, and is closed if that were more than `wait_seconds`. Agents check 150 subscriptions at
    once, in blocks of four; whatever else a block holds counts as well.
    `registrations_per_hour`, `registrations_at_once`: of tokens, TNEW and TRPL, by one address: each costs rows and a push.
    `task_commands_per_second`, `task_burst`, `blocks_at_once`: of the task, which addresses share evenly once it is busy. A
    handshake counts as `handshake_commands`. `threads`: that wait for AWS.
    `handshake_seconds`: for TLS and both hellos. `idle_seconds`: until a block is there, whole; less than the balancer's 350,
    so that an agent sees the end. `keepalive_seconds`: after which TCP asks an agent that is quiet whether it is there.
    `write_seconds`: for an agent to take the answers to one block.
    `last_seconds`: in which blocks are still answered once the task has to end. `drain_seconds`: for all answers then.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    connections: PositiveInt = 2_500
    handshakes: PositiveInt = 500
    connections_per_peer: PositiveInt = 100
    handshakes_per_peer: PositiveInt = 30
    connections_per_second: PositiveFloat = 2.0
    commands_per_second: PositiveFloat = 20.0
    burst: PositiveInt = 160
    peer_commands_per_second: PositiveFloat = 40.0
    peer_burst: PositiveInt = 400
    wait_seconds: PositiveFloat = 30.0
    registrations_per_hour: PositiveFloat = 120.0
    registrations_at_once: PositiveInt = 50
    task_commands_per_second: PositiveFloat = 800.0
    task_burst: PositiveInt = 100
    blocks_at_once: PositiveInt = 16
    handshake_commands: PositiveInt = 4
    threads: PositiveInt = 32
    handshake_seconds: PositiveFloat = 15.0
    idle_seconds: PositiveFloat = 300.0
    keepalive_seconds: PositiveInt = 120
    write_seconds: PositiveFloat = 20.0
    last_seconds: PositiveFloat = 1.0
    drain_seconds: PositiveFloat = 20.0


class NtfSettings(NtfCommandSettings):
    """`bounds` are those that differ from the defaults."""

    host: str = "0.0.0.0"  # noqa: S104 - of a task behind the balancer, whose security group alone may call
    port: Annotated[int, Field(ge=0, le=0xFFFF)] = DEFAULT_PORT
    health_port: Annotated[int, Field(ge=0, le=0xFFFF)] = DEFAULT_HEALTH_PORT
    bounds: Json[NtfBounds] | NtfBounds = NtfBounds()
