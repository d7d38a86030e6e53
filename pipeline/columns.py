"""What columns are called in the lake's files."""

FILE_NAMES = {"at": "happened_at", "order": "window_version", "window": "count_window"}
"""Columns that have another name in the lake's files than in events: SQL reserves these words, in DuckDB or Athena."""
EVENT_NAMES = {in_files: in_events for in_events, in_files in FILE_NAMES.items()}


def file_name(column: str) -> str:
    return FILE_NAMES.get(column, column)
