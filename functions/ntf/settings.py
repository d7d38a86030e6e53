"""What the task reads from its environment."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Json, PositiveFloat, PositiveInt

from ntf.commands.wiring import NtfCommandSettings

DEFAULT_PORT, DEFAULT_HEALTH_PORT = 8974, 8975
"""The task's: the balancer in front of it listens on another port."""


class NtfBounds(BaseModel):
    """How much of a task is given to whom; a peer is a network address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    connections: PositiveInt = 2_500
    """Of the task."""
    handshakes: PositiveInt = 500
    """Of these, before the agent's hello."""
    connections_per_peer: PositiveInt = 100
    handshakes_per_peer: PositiveInt = 30
    connections_per_second: PositiveFloat = 2.0
    """New ones of a peer, after `connections_per_peer` at once."""
    commands_per_second: PositiveFloat = 20.0
    """Of a connection, after a `burst`. Whatever else a block holds counts as well."""
    burst: PositiveInt = 160
    """Agents check 150 subscriptions at once, in blocks of four."""
    peer_commands_per_second: PositiveFloat = 100.0
    """Of all connections of a peer, after a `peer_burst`. Phones of one carrier, which share it evenly."""
    peer_burst: PositiveInt = 1_000
    wait_seconds: PositiveFloat = 30.0
    """That a connection waits for its own pace at most, and for its turn among its peer's: then it is closed."""
    registrations_per_hour: PositiveFloat = 120.0
    """Of tokens, TNEW and TRPL, by a peer, after `registrations_at_once`: each costs rows and a push."""
    registrations_at_once: PositiveInt = 50
    task_registrations_per_hour: PositiveFloat = 7_200.0
    """Of all peers, after `task_registrations_at_once`: Apple slows down whoever pushes to many tokens that are made up."""
    task_registrations_at_once: PositiveInt = 1_000
    task_commands_per_second: PositiveFloat = 800.0
    """Of the task, after a `task_burst`. Peers share it evenly once it is busy."""
    task_burst: PositiveInt = 100
    blocks_at_once: PositiveInt = 16
    """That are being answered by the task."""
    handshake_commands: PositiveInt = 4
    """As many does a handshake count for."""
    threads: PositiveInt = 32
    """That wait for AWS."""
    handshake_seconds: PositiveFloat = 15.0
    """For TLS and both hellos."""
    idle_seconds: PositiveFloat = 300.0
    """Until a whole block is there; less than the balancer's 350, so that an agent sees the end."""
    keepalive_seconds: PositiveInt = 120
    """After which TCP asks an agent that is quiet whether it is there."""
    write_seconds: PositiveFloat = 20.0
    """For an agent to take the answers to one block."""
    last_seconds: PositiveFloat = 1.0
    """In which blocks are still answered once the task has to end."""
    drain_seconds: PositiveFloat = 20.0
    """For all answers then."""


class NtfSettings(NtfCommandSettings):
    """`bounds` are those that differ from the defaults."""

    host: str = "0.0.0.0"  # noqa: S104 - of a task behind the balancer, whose security group alone may call
    port: Annotated[int, Field(ge=0, le=0xFFFF)] = DEFAULT_PORT
    health_port: Annotated[int, Field(ge=0, le=0xFFFF)] = DEFAULT_HEALTH_PORT
    bounds: Json[NtfBounds] | NtfBounds = NtfBounds()
