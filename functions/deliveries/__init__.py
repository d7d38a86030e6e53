"""Makes the index of deliveries, file by file of the lake's events."""
