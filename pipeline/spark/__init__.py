"""The Spark session: how it starts, what it says meanwhile, and how it ends."""
