"""Queue of envelopes to push queues: decode, verify, match, admit."""
