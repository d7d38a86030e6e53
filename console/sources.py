"""The event sources that feed a queue's messages to its function. A channel is mute while its source is off."""

import time
from typing import TYPE_CHECKING

from console.deployment import Queue
from console.faults import Trouble
from console.output import Progress

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

ON, OFF, MISSING = "Enabled", "Disabled", "Missing"
POLL_SECONDS = 2.0
PATIENCE_SECONDS = 180.0
"""Lambda takes up to a minute or so."""


class Source:
    def __init__(self, lambda_: "LambdaClient", queue: Queue) -> None:
        self._lambda = lambda_
        mappings = lambda_.list_event_source_mappings(FunctionName=queue.function)["EventSourceMappings"]
        self._function = queue.function
        self._id: str | None = mappings[0]["UUID"] if mappings else None
        self.state: str = mappings[0]["State"] if mappings else MISSING

    @property
    def on(self) -> bool:
        return self.state not in {OFF, "Disabling", MISSING}

    def switch(self, shown: Progress, *, on: bool, poll: float = POLL_SECONDS) -> None:
        """Also wait until it is so."""
        wanted = ON if on else OFF
        if self.state == wanted:
            return
        if self._id is None:
            raise Trouble(f"{self._function} has no event source: deploy again")
        self._lambda.update_event_source_mapping(UUID=self._id, Enabled=on)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (now := self._lambda.get_event_source_mapping(UUID=self._id)["State"]) != wanted:
            if time.monotonic() > deadline:
                raise Trouble(f"the event source is still {now!r} after {PATIENCE_SECONDS:.0f} s; see `clarion status`")
            shown.at(f"the event source is {now!r}")
            time.sleep(poll)
