"""Listens to the page's events, as its script does."""

import json
from typing import Any

import httpx

PATIENCE_S = 120
"""What a busy machine may take."""


async def first_events(address: str, wanted: set[str]) -> dict[str, Any]:
    """The data of the first event of each of these names. Fails for a fault before."""
    found: dict[str, Any] = {}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http,
        http.stream("GET", f"{address}events") as events,
    ):
        name = ""
        async for line in events.aiter_lines():
            field, _, value = line.partition(": ")
            name = value if field == "event" else name
            assert name != "fault"
            if field == "data":
                found.setdefault(name, json.loads(value))
            if wanted <= found.keys():
                break
    return found
