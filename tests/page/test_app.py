"""Who can look at the page, and what a browser may do with it."""

import asyncio
import inspect
import re
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import cast

import httpx
import pytest
import pytest_asyncio

from console.page import app as app_module
from console.page.app import HOST, ActionError
from console.page.server import serving
from tests.page.listening import PATIENCE_S
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
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE_S) as http:
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


@pytest.mark.parametrize("change", ["short", "long", "other", "case", "doubled", "encoded"])
async def test_a_token_that_is_nearly_right_is_none(address: str, http: httpx.AsyncClient, change: str) -> None:
    token = httpx.URL(address).path.strip("/")
    changed = {
        "short": token[:-1],
        "long": f"{token}A",
        "other": token[:-1] + ("A" if token[-1] != "A" else "B"),
        "case": token.swapcase(),
        "doubled": f"/{token}",
        "encoded": "%ff%fe",
    }[change]
    url = httpx.URL(address).copy_with(raw_path=f"/{changed}/".encode())
    assert (await http.get(url)).status_code == 404


async def test_the_token_alone_leads_to_the_page(address: str, http: httpx.AsyncClient) -> None:
    answer = await http.get(address.rstrip("/"))
    assert (answer.status_code, answer.headers["location"]) == (307, httpx.URL(address).path)


def test_the_token_is_compared_in_constant_time() -> None:
    assert "compare_digest" in inspect.getsource(app_module)
    assert not [route for route in app_module.app(MadeUpPage().backend, "a-token").routes if "a-token" in repr(route)]


FOREIGN = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
)


@pytest.mark.parametrize("headers", FOREIGN, ids=repr)
async def test_another_site_gets_nothing_even_with_the_token(
    page: MadeUpPage, http: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    for path in ("", "why/00", "web/main.js", "events"):
        assert (await http.get(path, headers=headers)).status_code == 403
    asked = {"sender": "message", "text": "not by its owner"}
    assert (await http.post("actions/send", json=asked, headers=headers)).status_code == 403
    form = {**headers, "Sec-Fetch-Mode": "navigate"}
    assert (await http.post("actions/send", data=asked, headers=form)).status_code == 403
    assert page.asked == []


async def test_a_link_elsewhere_may_lead_to_the_page(http: httpx.AsyncClient) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await http.get("", headers=headers)).status_code == 200


async def test_so_many_tabs_may_listen_and_one_that_is_closed_makes_room(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as tabs:
        first = await tabs.enter_async_context(AsyncExitStack())
        for stack in (first, *[tabs] * (app_module.MOST_STREAMS - 1)):
            await listen(http, stack)
        assert (await http.get("events")).status_code == 503
        await first.aclose()
        while (again := await tabs.enter_async_context(http.stream("GET", "events"))).status_code == 503:
            await asyncio.sleep(0.01)
        assert again.status_code == 200


async def listen(http: httpx.AsyncClient, stack: AsyncExitStack) -> None:
    """Until the stack ends."""
    events = await stack.enter_async_context(http.stream("GET", "events"))
    lines = await stack.enter_async_context(aclosing(cast("AsyncGenerator[str]", events.aiter_lines())))
    assert await anext(lines) == "event: about"


async def test_a_tab_that_takes_nothing_ends_what_is_read_for_it(page: MadeUpPage, address: str) -> None:
    url = httpx.URL(address)
    with socket.socket() as tab:
        tab.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        tab.connect((url.host, url.port))
        tab.sendall(f"GET {url.path}events HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            reads, without = 0, 0
            while without < 10:
                page.put(next(trail(500 * page.reads + number)) for number in range(500))
                without = without + 1 if page.reads == reads else 0
                reads = page.reads
                await asyncio.sleep(0.2)
    assert reads > 1


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
    ("body", "status"),
    [
        (b"no JSON", 400),
        (b"", 400),
        (b"[]", 400),
        (b'"text"', 400),
        (b"\xff", 400),
        (b"[" * 10_000, 400),
        (b'{"":' * 2_500, 400),
        (b" " * 10_001, 413),
    ],
    ids=lambda each: repr(each)[:20],
)
async def test_what_is_no_action_is_refused(http: httpx.AsyncClient, body: bytes, status: int) -> None:
    assert (await http.post("actions/send", content=body)).status_code == status


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ActionError("no such sender"), "no such sender"),
        (KeyError("sender"), "sender is missing"),
        (OSError("no port is free"), "OSError: no port is free"),
        (httpx.ConnectError("refused"), "ConnectError: refused"),
    ],
    ids=lambda each: str(each)[:20],
)
async def test_whatever_an_action_fails_with_is_said(
    page: MadeUpPage, http: httpx.AsyncClient, error: Exception, words: str
) -> None:
    page.refusal = error
    answer = await http.post("actions/send", json={})
    assert (answer.status_code, answer.json()) == (400, {"words": words})


async def test_a_request_that_is_no_json_is_told_so_in_words(http: httpx.AsyncClient) -> None:
    answer = await http.post("actions/send", data={"sender": "message", "text": "Hello"})
    assert (answer.status_code, answer.json()) == (400, {"words": "the request is no JSON"})


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
    async with asyncio.timeout(PATIENCE_S):
        before = -1
        while page.reads != before:
            before = page.reads
            await asyncio.sleep(0.5)
