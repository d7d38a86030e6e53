"""XMTP's own worker: asks for new keys, and ends installations that have run out."""
