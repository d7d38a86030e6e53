"""The Spark session: how it starts, on one machine with what was prepared for it, what it says meanwhile, and how it ends."""
