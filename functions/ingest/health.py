"""Health for ECS: whether the task is ready. What else the answer says is for people.

A deployment stops the tasks before once as many new ones are ready, `Task.is_ready`. From then on an answer at all says
that the event loop turns: a failed part ends the task by itself, and nodes or AWS services out of reach are no reason to
start it anew.

    python -m ingest.health     exits with 0 if the task on this machine is ready

The check runs beside the task on a part of a processor, so it imports nothing of the settings.
"""

import os
import sys
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

DEFAULT_PORT = 8973
CHECK_SECONDS = 10.0
"""How long the check waits for an answer: while the rules are read, the event loop has little time."""
HOST = "127.0.0.1"


def main(port: int) -> int:
    """The exit code."""
    connection = HTTPConnection(HOST, port, timeout=CHECK_SECONDS)
    try:
        connection.request("GET", "/health")
        return 0 if connection.getresponse().status == HTTPStatus.OK else 1
    except (OSError, HTTPException):
        return 1


if __name__ == "__main__":
    sys.exit(main(int(os.environ.get("CLARION_HEALTH_PORT", DEFAULT_PORT))))
