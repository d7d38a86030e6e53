"""Statement store to statements queue: an ECS task that streams, tells replay from live, and forwards."""
