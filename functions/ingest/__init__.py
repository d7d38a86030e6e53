"""From the networks' sources to the queue of envelopes: an ECS task that follows them, and forwards what a rule may want."""
