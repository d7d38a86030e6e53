"""The data pipeline: Spark jobs that explain, repair and report what the live system did, from the lake alone.

    compaction ──▶ lake ──▶ in_force ──▶ reconciliation ──┬─▶ repair
                                                          └─▶ report

`lake` holds what is there and how it is read and written, `spark` the session. `jobs` has a module for each command that
needs Spark; `explain` and `erase` are commands that need none, and `generator` makes a lake up.
"""
