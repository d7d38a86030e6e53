"""The second stand-in for APNs, as far as the senders rely on it."""

from pathlib import Path

import httpx

from bench.dispatch import NODE_HTTP2, provider
from local import tls

PATIENCE_S = 60
"""What a busy machine may take."""


async def test_nodes_stand_in_answers_a_push_with_its_id_over_http2(tmp_path: Path) -> None:
    localhost = tls.issue(tmp_path)
    with provider(NODE_HTTP2, tmp_path) as port:
        url = f"https://127.0.0.1:{port}"
        context = localhost.client_context()
        async with httpx.AsyncClient(base_url=url, http2=True, verify=context, timeout=PATIENCE_S) as client:
            answer = await client.post("/3/device/a1", headers={"apns-id": "an-id"}, content=b"{}")
    assert (answer.http_version, answer.status_code, answer.headers["apns-id"]) == ("HTTP/2", 200, "an-id")
