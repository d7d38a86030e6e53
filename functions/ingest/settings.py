"""What the task reads from its environment."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from clarion.networks import STATEMENTS, network
from clarion.settings import EventSettings, NodeBudget
from clarion.storage import SEEN_PREFIX
from ingest.filter.fingerprints import OWNERS
from ingest.health import DEFAULT_PORT


class FirstReplay(StrEnum):
    """What to do with what a source holds when nothing is known of earlier envelopes."""

    RECORD = "record"
    HANDLE = "handle"


def _listed(value: object) -> object:
    """Take a JSON list or a comma-separated one."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.startswith("[") else [one.strip() for one in value.split(",")]


def _mapped(value: object) -> object:
    """Take a JSON object."""
    return json.loads(value) if isinstance(value, str) else value


_MOST_NODES = OWNERS - 1

_MIB = 1024 * 1024
RENEWALS = 3
"""Of a lease, in the time that it is good for: two may fail."""


class IngestSettings(EventSettings):
    """All but the first three, and the nodes, have defaults that suit production; durations are in seconds.

    `networks`: whose sources are followed.
    `nodes`: their addresses, by network: all of a network's are followed at once.
    `node_budgets`: in place of the networks' own.
    `options`: what the deployment says of networks that ask for it, by network.
    `secrets`: the ids of what networks have ingest read, by their names.
    `ca_file`: replaces the public authorities that vouch for nodes that are reached by TLS.
    `command_queues`: by the name of each network with a function of its own, the URL of that function's queue.
    `state_bucket`, `state_prefix`: where the record of seen envelopes is kept; by default in the oversize bucket.
    `first_replay`: what to do with what the sources hold if there is no record.
    `initial_replay_seconds`: how long after a complete replay they are recorded, as a live copy may still come.
    `seen_limit`: how many seen envelopes are remembered at most, at 13 to 19 bytes each. Half of it is divided among
    the sources; the other half is for envelopes that were verified.
    `outbox_bytes`, `second_look_bytes`, `standby_bytes`: envelopes held for the queue (as much for the lake, and twice
    as much, of what no message holds, for S3), for a rule that may come late (once more what was forwarded lately), and
    until the task has delivered them whose they are. Each is divided among the sources.
    `lake_linger_seconds`: how long an envelope waits for others to share its record in the lake's stream.
    `rule_lag_seconds`: how long a rule may take from its writing to its coming out of the table's stream. Twice that is
    how long match may take to read the rules: what changes meanwhile gets an envelope a second look.
    `stream_poll_seconds`: between two readings of that stream; DynamoDB allows five a second and shard.
    `stream_idle_seconds`: the same while no envelope waits for a rule.
    `rules_read_seconds`: between two readings of the whole table, by which removed rules leave the filter.
    `lease_seconds`: the silence after which other tasks take over a task's shards; each looks `RENEWALS` times in it.
    `overlap_seconds`: how much of what a task has delivered they send again then.
    `answer_seconds`, `replay_seconds`: how long a node may take to answer, and between two events of a replay.
    `whole_replay_seconds`: how long a node may take for a replay.
    `watch_seconds`: between two comparisons of the nodes.
    `renew_seconds`, `quiet_seconds`: the age and the silence after which a subscription is renewed.
    `forget_seconds`: how often to see whether all sources have replayed, so that the rest can be forgotten.
    `absent_seconds`: after which a source without a complete replay isn't waited for before envelopes are forgotten.
    `save_seconds`: between two savings of what was seen. A task that starts sends again what the others have handled
    since the last, and match drops what has a claim.
    `health_port`: on the loopback address, for `python -m ingest.health`.
    """

    envelopes_queue_url: str
    oversize_bucket: str
    networks: Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)] = (STATEMENTS,)
    nodes: Annotated[Mapping[str, tuple[str, ...]], BeforeValidator(_mapped)] = Field(default_factory=dict)
    node_budgets: Annotated[Mapping[str, NodeBudget], BeforeValidator(_mapped)] = Field(default_factory=dict)
    options: Annotated[Mapping[str, Mapping[str, object]], BeforeValidator(_mapped)] = Field(default_factory=dict)
    secrets: Annotated[Mapping[str, str], BeforeValidator(_mapped)] = Field(default_factory=dict)
    ca_file: str | None = None
    command_queues: Annotated[Mapping[str, str], BeforeValidator(_mapped)] = Field(default_factory=dict)
    table_prefix: str = ""
    state_bucket: str | None = None
    state_prefix: str = SEEN_PREFIX
    first_replay: FirstReplay = FirstReplay.RECORD
    initial_replay_seconds: float = 10.0
    seen_limit: int = 8_000_000
    outbox_bytes: int = 64 * _MIB
    second_look_bytes: int = 64 * _MIB
    standby_bytes: int = 64 * _MIB
    lake_linger_seconds: float = 1.0
    rule_lag_seconds: float = 5.0
    stream_poll_seconds: float = 0.5
    stream_idle_seconds: float = 5.0
    rules_read_seconds: float = 86_400.0
    lease_seconds: float = 8.0
    overlap_seconds: float = 60.0
    answer_seconds: float = 20.0
    replay_seconds: float = 30.0
    whole_replay_seconds: float = 1_800.0
    watch_seconds: float = 15.0
    renew_seconds: float = 3_600.0
    quiet_seconds: float = 120.0
    forget_seconds: float = 5.0
    absent_seconds: float = 3_600.0
    save_seconds: float = 5.0
    health_port: int = DEFAULT_PORT

    @model_validator(mode="after")
    def _each_network_has_nodes(self) -> "IngestSettings":
        followed = {name: nodes for name in self.networks if (nodes := network(name).needs.nodes)}
        if missing := [name for name in followed if not self.nodes.get(name)]:
            raise ValueError(f"no node to follow: {', '.join(missing)}")
        for name, nodes in followed.items():
            nodes.check(self.nodes[name])
        if sum(len(self.nodes[name]) for name in followed) > _MOST_NODES:
            raise ValueError(f"more than {_MOST_NODES} nodes")
        return self

    def budget(self, name: str) -> NodeBudget:
        """Of one node. Raises `LookupError` for a network whose nodes have none."""
        nodes = network(name).needs.nodes
        if nodes is None or nodes.budget is None:
            raise LookupError(name)
        return self.node_budgets.get(name, nodes.budget)
