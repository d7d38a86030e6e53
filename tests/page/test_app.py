"""Who can look at the page, and what a browser may do with it."""

import asyncio
import re
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from console.page.app import HOST
from console.page.server import serving
from tests.page.made_up import MadeUpPage, trail


@pytest.fixture
def page() -> MadeUpPage:
    return MadeUpPage()


@pytest_asyncio.fixture
async def address(page: MadeUpPage) -> AsyncIterator[str]:
    async with serving(page.backend) as address:
        yield address


@pytest_asyncio.fixture
async def http(address: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=address, trust_env=False) as http:
        yield http


async def test_each_start_has_an_address_of_its_own(page: MadeUpPage) -> None:
    async with serving(page.backend) as one, serving(page.backend) as other:
        tokens = [re.fullmatch(r"http://127\.0\.0\.1:\d+/([\w-]{43})/", each) for each in (one, other)]
    assert all(tokens)
    assert len({found[1] for found in tokens if found}) == 2


@pytest.mark.parametrize("path", ["/", "/events", "/web/main.js", "/charts/uPlot.esm.js", "/why/00", "/guessed/"])
async def test_without_the_token_there_is_nothing(address: str, http: httpx.AsyncClient, path: str) -> None:
    origin = httpx.URL(address).copy_with(path=path)
    assert (await http.get(origin)).status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::1]", ""])
async def test_a_name_that_another_site_leads_here_is_refused(http: httpx.AsyncClient, host: str) -> None:
    """DNS rebinding: the browser thinks that it asks the site, and sends its name."""
    assert (await http.get("", headers={"Host": host})).status_code == 400


async def test_it_listens_on_this_machine_alone(page: MadeUpPage) -> None:
    assert HOST == "127.0.0.1"
    async with serving(page.backend) as address:
        port = httpx.URL(address).port
        with pytest.raises(OSError, match=r".*"):
            await asyncio.open_connection("127.0.0.2", port)


@pytest.mark.parametrize("path", ["", "web/main.js", "charts/uPlot.esm.js", "why/00", "web/none.js"])
async def test_whatever_is_answered_can_neither_run_nor_load_what_is_not_its_own(
    http: httpx.AsyncClient, path: str
) -> None:
    headers = (await http.get(path)).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


async def test_the_page_has_no_inline_script_or_style_and_names_no_other_host(http: httpx.AsyncClient) -> None:
    html = (await http.get("")).text
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?://", html) == []
    named = re.findall(r'(?:src|href)="([^"#]+)"', html)
    assert {(await http.get(path)).status_code for path in named} == {200}


@pytest.mark.parametrize(
    "path", ["web/../app.py", "web/%2e%2e/app.py", "web/node_modules/../../app.py", "charts/../../package.json"]
)
async def test_no_other_file_is_served(address: str, path: str) -> None:
    url = httpx.URL(address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"GET {url.path}{path} HTTP/1.1\r\nHost: {url.host}\r\nConnection: close\r\n\r\n".encode())
    assert (await reader.read()).startswith(b"HTTP/1.1 404")
    writer.close()


async def test_the_steps_of_an_item_are_those_of_why(page: MadeUpPage, http: httpx.AsyncClient) -> None:
    [item] = page.items.add([event.to_line() for event in trail(7)])
    why = (await http.get(f"why/{item.key}")).json()
    assert next(step["what"] for step in why["traces"][0]["steps"]) == "matched"
    assert why["envelope_id"] == item.key
    assert any(words.startswith("delivered: ") for words in why["summary"])


async def test_an_unknown_item_is_not_found(http: httpx.AsyncClient) -> None:
    assert (await http.get(f"why/{'00' * 32}")).status_code == 404


async def test_an_action_gets_what_was_asked(page: MadeUpPage, http: httpx.AsyncClient) -> None:
    assert (await http.post("actions/send", json={"sender": "message", "text": "hi"})).status_code == 204
    assert page.asked == [("send", {"sender": "message", "text": "hi"})]


@pytest.mark.parametrize(
    ("body", "status"), [(b"no JSON", 400), (b"[]", 400), (b'"text"', 400), (b" " * 10_001, 413)], ids=repr
)
async def test_what_is_no_action_is_refused(http: httpx.AsyncClient, body: bytes, status: int) -> None:
    assert (await http.post("actions/send", content=body)).status_code == status


async def test_nothing_acts_by_being_looked_at(page: MadeUpPage, http: httpx.AsyncClient) -> None:
    assert (await http.get("actions/send")).status_code == 405
    assert page.asked == []


async def test_a_deployments_page_has_no_actions() -> None:
    async with serving(MadeUpPage(local=False).backend) as address, httpx.AsyncClient(trust_env=False) as http:
        for name in ("send", "switch"):
            assert (await http.post(f"{address}actions/{name}", json={})).status_code == 404


async def test_who_leaves_ends_the_reading(page: MadeUpPage, http: httpx.AsyncClient) -> None:
    async with http.stream("GET", "events") as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        lines = events.aiter_lines()
        assert await anext(lines) == "event: about"
        while not page.reads:
            await asyncio.sleep(0.01)
    async with asyncio.timeout(60):
        before = -1
        while page.reads != before:
            before = page.reads
            await asyncio.sleep(0.5)
