"""The data pipeline: Spark jobs that explain, repair and report what the live system did, from the lake alone."""
