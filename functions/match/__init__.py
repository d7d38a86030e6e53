"""Statements queue to push queues: decode, verify, match, admit."""
