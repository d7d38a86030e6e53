"""What apps receive, as JSON Schema: the webhooks of the API's description.

`pushes.json` beside each network's routes names a definition for each of its channels; the files beside this module are
about what Clarion pushes itself, and how any push looks that is sealed. No URL is called, but by the channel `webhook`: a
provider hands the payload to the app.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

PUSHES = "pushes.json"
API = Path(__file__).parent


class Webhooks(NamedTuple):
    """Path items by network and channel, and the schemas that they refer to."""

    paths: dict[str, Any]
    schemas: dict[str, Any]


def webhooks(networks: Iterable[str]) -> Webhooks:
    found = Webhooks({}, {})
    for name, file in _files(networks):
        described = json.loads(file.read_text().replace('"#/$defs/', '"#/components/schemas/'))
        found.schemas.update(described["$defs"])
        for channel, schema in described["properties"].items():
            found.paths[f"{name}.{channel}"] = _path_item(f"{described['title']}, by {channel}", schema)
    return found


def _files(networks: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """A network that pushes nothing to apps has no such file."""
    for name in networks:
        file = API / "networks" / name / PUSHES
        if file.exists():
            yield name, file
    yield "clarion", API / PUSHES
    yield "sealed", API / f"sealed_{PUSHES}"


def _path_item(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    answer = {"default": {"description": "An app answers nothing; docs/webhook.md says what a webhook answers."}}
    return {"post": {"summary": summary, "requestBody": body, "responses": answer}}
