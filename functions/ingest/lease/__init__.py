"""Which task forwards what: leases, the shards that follow from them, and how far each task has delivered."""
