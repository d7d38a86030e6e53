"""The names of all metrics, in one place: components record them, alarms and dashboards refer to them.

A decision's metric is its vocabulary and its word, such as `push_token_gone`. Each carries the dimensions `service`,
the component that recorded it, and `stage`, so that the deployments of one account are kept apart; those about nodes
also `network`, so that the nodes of one don't hide that another's are away.
"""

from enum import StrEnum
from typing import TYPE_CHECKING

from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision

if TYPE_CHECKING:
    from aws_lambda_powertools.metrics import EphemeralMetrics

NAMESPACE = "Clarion"


class Metric(StrEnum):
    """What is measured besides decisions."""

    OWN_PUSHES_DELIVERED = "own_pushes_delivered"
    """Codes and wake-ups that a provider took: `latency` has none of them."""
    TOKEN_FAULTS = "token_faults"  # noqa: S105 - a name, not a secret
    """Pushes that were given up for what may be their tokens' own fault, and dead tokens that nobody had proven, where
    anybody may name one: they are not among `push_refused` and `push_token_gone`, since any client can have as many."""
    EVENTS_LOST = "events_lost"
    LATENCY = "latency"
    """Of each push that a provider took, but for Clarion's own, in milliseconds. So its samples are how many were delivered:
    nothing else counts them."""
    KEYS_UNAVAILABLE = "keys_unavailable"
    """Callers that could not be authenticated, because an issuer's keys could not be fetched."""
    REQUESTS_FAILED = "requests_failed"
    """Of clients, because a part of the service didn't answer, in whatever way the protocol says so."""
    ANSWERED_5XX = "answered_5xx"
    """Answers of a function with such a status, for whatever reason: Connect's `unimplemented` has one as well."""
    MESSAGES_POISONED = "messages_poisoned"
    ENVELOPES_FAILED = "envelopes_failed"
    """Met a fault in one invocation, of what may be several: the queue brings them again, until they are given up."""
    RECEIVERS_UNREADABLE = "receivers_unreadable"
    """Subscriptions of an envelope that were left out, because their rows can't be read."""
    ENVELOPES_GIVEN_UP = "envelopes_given_up"
    """Failed at the last attempt: in the dead-letter queue, with the reason."""
    ENVELOPES_RECEIVED = "envelopes_received"
    ENVELOPES_FORWARDED = "envelopes_forwarded"
    SECOND_LOOKS = "second_looks"
    """Envelopes sent again because a rule for them was written just before, or after, they were sent."""
    ENVELOPES_REPLAYED = "envelopes_replayed"
    NODES_CONNECTED = "nodes_connected"
    """By each ingest task that is at work, of each network."""
    SMP_SERVERS_REACHED = "smp_servers_reached"
    """By each ingest task, of those that have queues in its buckets."""
    SMP_SERVERS_UNREACHED = "smp_servers_unreached"
    SMP_NONE_REACHED = "smp_none_reached"
    """Reports of an ingest task that follows several SMP servers and is connected to none."""
    SMP_QUEUES_BEYOND = "smp_queues_beyond"
    """Queues that an ingest task has no room for."""
    NODE_FAULTS = "node_faults"
    INTERNAL_ERRORS = "internal_errors"
    """Failures of ingest's own while it took in what a node had sent."""
    ENVELOPES_SKIPPED = "envelopes_skipped"
    """Shown again though already known."""
    ENVELOPES_MISTIMED = "envelopes_mistimed"
    """Let go, because the node that showed them gave them a time that is far from ingest's own."""
    ENVELOPES_HELD = "envelopes_held"
    """Waiting for the queue, for the lake, or for a second look."""
    INGEST_LAG = "ingest_lag"
    """Age of the oldest envelope that queue and lake have not both confirmed, in milliseconds."""
    REPLAY_REMAINING = "replay_remaining"
    """What the nodes still owe of their replays."""
    SHARDS_OWNED = "shards_owned"
    """By each ingest task, of 256: the sum over tasks is as many, or a few more while one comes or goes."""
    SEEN_ENVELOPES = "seen_envelopes"
    KNOWN_KEYS = "known_keys"
    """Rule keys in the candidate filter."""
    RULES_BEHIND = "rules_behind"
    """How long ago the candidate filter last knew every rule, in milliseconds.

    A few seconds are usual, and half a minute where hardly anything is shown.
    """

    TICKS_MISSED = "ticks_missed"
    """Minutes that the schedule was not called in, and made up for."""
    WAKE_UPS_SENT = "wake_ups_sent"
    WAKE_UPS_UNSENT = "wake_ups_unsent"
    """Due, and left out until they are due again: no queue took them, or time ran out."""
    SUBSCRIPTIONS_EXPIRED = "subscriptions_expired"
    EXPIRIES_FAILED = "expiries_failed"
    NTF_SESSIONS = "ntf_sessions"
    """Connections of SimpleX's agents that have got as far as both hellos."""
    NTF_SESSIONS_OPEN = "ntf_sessions_open"
    """Connections, by each task of the NTF server."""
    NTF_CONNECTIONS_REFUSED = "ntf_connections_refused"
    """Beyond the bounds of a task, or of one address; those among them that were closed later, for sending too much."""
    NTF_HANDSHAKES_FAILED = "ntf_handshakes_failed"
    """Of TLS, or for another server or version."""
    NTF_COMMANDS = "ntf_commands"
    NTF_REGISTRATIONS_REFUSED = "ntf_registrations_refused"
    """Of tokens, beyond what one address may register."""
    NTF_COMMANDS_FAILED = "ntf_commands_failed"
    """Because a part of the service didn't answer, or by a fault of ours: the agent's answer says so."""
    LOSSES_FOUND = "losses_found"
    """Pushes that the pipeline's `watch` has newly found to be lost, by its batch."""


type Decision = EnvelopeDecision | NotificationDecision | PushDecision

_VOCABULARIES = {EnvelopeDecision: "envelope", NotificationDecision: "notification", PushDecision: "push"}


def decided(decision: Decision) -> str:
    """The name of the metric that counts `decision`."""
    return f"{_VOCABULARIES[type(decision)]}_{decision}"


def dimensions(service: str, stage: str, network: str | None = None) -> dict[str, str]:
    """What a metric is selected by: all of them, since CloudWatch knows none by a part of its dimensions."""
    return {"service": service, "stage": stage, **({"network": network} if network else {})}


def metrics_of(service: str, stage: str, network: str | None = None) -> "EphemeralMetrics":
    """What a component records with; `flush_metrics` prints one line in the embedded metric format."""
    # The pipeline needs the names alone, and has no Powertools.
    from aws_lambda_powertools.metrics import EphemeralMetrics  # noqa: PLC0415

    return EphemeralMetrics(namespace=NAMESPACE, default_dimensions=dimensions(service, stage, network))


def flush(metrics: "EphemeralMetrics") -> None:
    """Print what was recorded, if anything was: Powertools warns of an empty set."""
    if metrics.metric_set:
        metrics.flush_metrics()
