"""What is remembered of envelopes, so that each is handled once, and none is lost to a rule that came late."""
