"""The event sources that feed a queue's messages to its function. A channel is mute while its source is off."""

import time
from typing import TYPE_CHECKING

from console.deployment import Queue
from console.faults import Trouble
from console.output import Progress

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

ON, OFF = "Enabled", "Disabled"
_NOT_FEEDING = {OFF, "Disabling"}
POLL_SECONDS = 2.0
PATIENCE_SECONDS = 180.0
"""Lambda takes up to a minute or so."""


class Source:
    """All event sources of a queue's function: that of the queue itself, and that of its held messages.

    They feed the function's alias, by which alone they are found:
    https://docs.aws.amazon.com/lambda/latest/api/API_ListEventSourceMappings.html
    """

    def __init__(self, lambda_: "LambdaClient", queue: Queue) -> None:
        self._lambda = lambda_
        mappings = lambda_.list_event_source_mappings(FunctionName=queue.live)["EventSourceMappings"]
        self._function = queue.function
        self._states = {mapping["UUID"]: mapping["State"] for mapping in mappings}

    @property
    def on(self) -> bool:
        return not _NOT_FEEDING.issuperset(self._states.values())

    def switch(self, shown: Progress, *, on: bool, poll: float = POLL_SECONDS) -> None:
        """Also wait until it is so."""
        if not self._states:
            raise Trouble(f"{self._function} has no event source: deploy again")
        wanted = ON if on else OFF
        late = [name for name, state in self._states.items() if state != wanted]
        for name in late:
            self._lambda.update_event_source_mapping(UUID=name, Enabled=on)
        deadline = time.monotonic() + PATIENCE_SECONDS
        for name in late:
            self._wait(name, wanted, deadline, shown, poll)

    def _wait(self, name: str, wanted: str, deadline: float, shown: Progress, poll: float) -> None:
        while (now := self._lambda.get_event_source_mapping(UUID=name)["State"]) != wanted:
            if time.monotonic() > deadline:
                raise Trouble(f"the event source is still {now!r} after {PATIENCE_SECONDS:.0f} s; see `clarion status`")
            shown.at(f"the event source is {now!r}")
            time.sleep(poll)


def fed(lambda_: "LambdaClient") -> set[str]:
    """The account's functions that get messages, by one listing instead of one for each queue."""
    pages = lambda_.get_paginator("list_event_source_mappings").paginate()
    mappings = (mapping for page in pages for mapping in page["EventSourceMappings"])
    return {mapping["FunctionArn"].split(":")[6] for mapping in mappings if mapping["State"] not in _NOT_FEEDING}
