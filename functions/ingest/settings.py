"""What the task reads from its environment."""

import json
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field

from clarion.settings import Settings


class FirstReplay(StrEnum):
    """What to do with a node's standing statements when nothing is known of earlier ones."""

    RECORD = "record"
    HANDLE = "handle"


def _urls(value: object) -> object:
    """Take a JSON list or a comma-separated one."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.startswith("[") else [url.strip() for url in value.split(",")]


NodeUrl = Annotated[str, Field(pattern=r"^wss?://")]


class IngestSettings(Settings):
    """`node_urls` are statement store nodes, all of which are followed at once."""

    node_urls: Annotated[tuple[NodeUrl, ...], BeforeValidator(_urls), Field(min_length=1)]
    statements_queue_url: str
    oversize_bucket: str
    table_prefix: str = ""
    first_replay: FirstReplay = FirstReplay.RECORD
