"""The data pipeline: Spark jobs that explain, repair and report what the live system did, from the lake alone."""

ON_INTERRUPTION = "» interrupted: what was not committed counts as not done; run it again"
"""The last line of a command that is stopped."""
