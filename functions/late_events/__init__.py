"""Sends late events to Firehose."""
