"""The page: what happened in a period."""
