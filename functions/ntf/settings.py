"""What the task reads from its environment."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Json, PositiveFloat, PositiveInt

from ntf.commands.wiring import NtfCommandSettings

DEFAULT_PORT, DEFAULT_HEALTH_PORT = 8974, 8975
"""The task's: the balancer in front of it listens on another port."""


class NtfBounds(BaseModel):
    """What a task, a peer and a connection may have at most. A peer is a network address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    connections: PositiveInt = 2_500
    """Of a task, at once."""
    handshakes: PositiveInt = 500
    """Connections of a task whose agent has not sent its hello yet."""
    connections_per_peer: PositiveInt = 100
    handshakes_per_peer: PositiveInt = 30
    connections_per_second: PositiveFloat = 2.0
    """New connections of a peer; `connections_per_peer` may come at once."""
    commands_per_second: PositiveFloat = 20.0
    """Of a connection; a `burst` may come at once. What can't be read as a command counts, too."""
    burst: PositiveInt = 160
    """Agents check 150 subscriptions at once, in blocks of four."""
    peer_commands_per_second: PositiveFloat = 100.0
    """Of all connections of a peer, which share them evenly; a `peer_burst` may come at once."""
    peer_burst: PositiveInt = 1_000
    wait_seconds: PositiveFloat = 30.0
    """How long a block may wait for its connection's pace, and then for its turn among its peer's. If longer, it is closed."""
    registrations_per_hour: PositiveFloat = 120.0
    """TNEW and TRPL of a peer; `registrations_at_once` may come at once. Each costs rows and a push."""
    registrations_at_once: PositiveInt = 50
    task_registrations_per_hour: PositiveFloat = 7_200.0
    """Of all peers; `task_registrations_at_once` may come at once. Apple slows down whoever pushes to many made-up tokens."""
    task_registrations_at_once: PositiveInt = 1_000
    task_commands_per_second: PositiveFloat = 800.0
    """Of a task; a `task_burst` may come at once. Peers share them evenly when the task is busy."""
    task_burst: PositiveInt = 100
    blocks_at_once: PositiveInt = 16
    """How many blocks a task answers at the same time."""
    handshake_commands: PositiveInt = 4
    """How many commands a handshake counts as."""
    threads: PositiveInt = 32
    """Threads that execute commands, and wait for AWS."""
    handshake_seconds: PositiveFloat = 15.0
    """For TLS and both hellos."""
    idle_seconds: PositiveFloat = 300.0
    """How long a block may take to arrive; less than the balancer's 350, so that the agent sees the connection end."""
    keepalive_seconds: PositiveInt = 120
    """After which TCP asks an agent that is quiet whether it is there."""
    write_seconds: PositiveFloat = 20.0
    """How long an agent may take to read the answers to one block."""
    last_seconds: PositiveFloat = 1.0
    """How long blocks are still read once a session has to end."""
    drain_seconds: PositiveFloat = 20.0
    """How long a task that has to end waits for its sessions."""


class NtfSettings(NtfCommandSettings):
    """`bounds` are those that differ from the defaults."""

    host: str = "0.0.0.0"  # noqa: S104 - of a task behind the balancer, whose security group alone may call
    port: Annotated[int, Field(ge=0, le=0xFFFF)] = DEFAULT_PORT
    health_port: Annotated[int, Field(ge=0, le=0xFFFF)] = DEFAULT_HEALTH_PORT
    bounds: Json[NtfBounds] | NtfBounds = NtfBounds()
