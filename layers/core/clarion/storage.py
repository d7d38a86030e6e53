"""Where things lie in the bucket beside the lake: under one prefix for each kind, which permissions are granted by."""

OVERSIZE_PREFIX = "envelopes/"
"""Envelopes too large for a queue's message, each named by its receipt."""
SEEN_PREFIX = "ingest/seen/"
"""Ingest's record of the envelopes that it has seen."""
