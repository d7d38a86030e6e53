"""What the rooms share: the statement codec, signatures, payloads, messages and tables."""
