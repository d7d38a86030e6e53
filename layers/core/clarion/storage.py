"""Where things lie in S3: under one prefix for each kind, which permissions are granted by."""

OVERSIZE_PREFIX = "envelopes/"
"""Beside the lake: envelopes too large for a queue's message, each named by its receipt."""
SEEN_PREFIX = "ingest/seen/"
"""Beside the lake: ingest's record of the envelopes that it has seen."""
EVENTS_PREFIX = "events/"
"""In the lake: what Firehose writes, by the hour of arrival."""
DELIVERIES_PREFIX = "deliveries/"
"""In the lake: the index of each of these files, as `clarion.deliveries` packs it."""


def deliveries_key(events_key: str) -> str:
    """Where the index of a file of events lies: under the same hour and name."""
    return DELIVERIES_PREFIX + events_key.removeprefix(EVENTS_PREFIX)
