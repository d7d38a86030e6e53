import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import pytest
import sr25519

from api.app import handle, resolver
from api.authorization import Authorizer
from api.openapi import document
from api.problems import ProblemKind
from api.settings import ApiSettings
from api.worker import ApiWorker
from clarion.channels import CHANNELS, Channel
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS, Receiver
from clarion.networks.statements import payload
from clarion.networks.statements.payload import StatementBody, compose
from clarion.settings import TITLE
from local.gateway import Gateway

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = re.compile(r"```sh\n(.*?)```\n```json\n(.*?)```", re.DOTALL)
ARRIVES = re.compile(r"\n## What arrives\n(.*?)\n## ", re.DOTALL)
OF_CHANNEL = re.compile(r"\n### `(\w+)`[^\n]*\n(.*?)(?=\n### |\Z)", re.DOTALL)
JSON_BLOCK = re.compile(r"```json\n(.*?)```", re.DOTALL)
FITTING_BYTES = 1_800
"""Of data: what the page says fits every channel."""
UNIX_SECONDS = 1_000_000_000
SEPARATOR = "\n---- next example ----\n"


@pytest.fixture(scope="module")
def gateway(authorizer: Authorizer, pushing: Callable[..., ApiWorker]) -> Iterator[Gateway]:
    """A deployment that takes direct pushes, so that every example can succeed."""
    worker = pushing()
    with Gateway(authorizer, lambda event: handle(event, cast("LambdaContext", None), worker)) as running:
        yield running


def test_the_committed_description_is_that_of_the_code() -> None:
    assert json.loads((DOCS / "openapi.json").read_text()) == document(resolver((STATEMENTS,))), "run `make openapi`"


def test_the_description_has_no_answer_of_the_resolvers_own_and_no_schema_in_vain() -> None:
    described = document(resolver((STATEMENTS,)))
    text = json.dumps(described)
    assert "ValidationError" not in text
    assert [name for name in described["components"]["schemas"] if f'/schemas/{name}"' not in text] == []
    assert "422" not in described["paths"]["/v1/notify"]["post"]["responses"]


def test_the_description_declares_the_headers_that_a_client_has_to_read() -> None:
    paths = document(resolver((STATEMENTS,)))["paths"]
    for operation in (operation for methods in paths.values() for operation in methods.values()):
        for status in ("429", "503"):
            assert operation["responses"][status]["headers"].keys() == {"Retry-After"}
    assert paths["/v1/subscriptions"]["get"]["responses"]["200"]["headers"].keys() == {"Link"}


def test_every_problem_is_explained() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \|", (DOCS / "errors.md").read_text(), re.MULTILINE)
    assert {(name, int(status)) for name, status in rows} == {(kind.slug, int(kind.status)) for kind in ProblemKind}


def test_the_documented_limits_are_the_defaults() -> None:
    rows = re.findall(r"^\| `CLARION_(\w+)` \| (\d+) \|", (DOCS / "api.md").read_text(), re.MULTILINE)
    fields = ApiSettings.model_fields
    assert len(rows) == 7
    assert {name: int(value) for name, value in rows} == {name: fields[name.lower()].default for name, _ in rows}


def arriving(channel: Channel, data: bytes) -> Any:
    """What the app gets of a statement with `data`."""
    push = PushMessage(
        network=STATEMENTS,
        receipt=UUID(int=0),
        observed_at=0,
        envelope_id=b"\x7e" * 32,
        subscription_id=UUID(int=0),
        client_id=bytes(32),
        channel=channel,
        expires_at=0,
        body=StatementBody(sender=b"\xab" * 32, topic=b"\x01" * 32, data=data),
    )
    body = compose(channel, push, Receiver(TITLE, CHANNELS[channel].payload_bytes)).body
    return json.loads(body) if isinstance(body, bytes) else body["data"]


def test_the_page_shows_what_arrives_by_each_channel_whole_and_truncated() -> None:
    [section] = ARRIVES.findall((DOCS / "api.md").read_text())
    shown = {
        channel: [json.loads(one) for one in JSON_BLOCK.findall(text)] for channel, text in OF_CHANNEL.findall(section)
    }
    assert shown == {
        channel.value: [arriving(channel, bytes.fromhex("c0ffee")), arriving(channel, bytes(4096))]
        for channel in payload.CHANNELS
    }


@pytest.mark.parametrize("channel", payload.CHANNELS)
def test_the_data_that_the_page_says_fits_every_channel_does(channel: Channel) -> None:
    text = " ".join((DOCS / "api.md").read_text().split())
    assert f"Data of {FITTING_BYTES:,} bytes fits every channel" in text
    assert "hash" not in json.dumps(arriving(channel, bytes(FITTING_BYTES)))


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples are for curl")
def test_each_example_answers_what_it_says(gateway: Gateway, new_token: Callable[..., str]) -> None:
    examples = EXAMPLE.findall((DOCS / "api.md").read_text())
    assert len(examples) == 13
    script = f"printf '{SEPARATOR}'\n".join(command for command, _ in examples)
    seed = uuid4().bytes * 2
    environment = {"CLARION": gateway.url, "TOKEN": new_token(), "SEED": seed.hex()}
    environment["CLIENT"] = sr25519.pair_from_seed(seed)[0].hex()
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],  # noqa: S607 - the reader's own shell
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    for answer, (command, expected) in zip(ran.stdout.split(SEPARATOR), examples, strict=True):
        assert same(json.loads(answer), json.loads(expected)), command


def same(found: Any, expected: Any) -> bool:
    """`…` stands for anything, and UNIX seconds for a time within the next five minutes."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(same(found[name], value) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, int) and expected > UNIX_SECONDS:
        return isinstance(found, int) and 0 <= found - time.time() < 300
    return bool(expected in ("…", found))


def test_the_example_client_signs_in_registers_and_whitelists(gateway: Gateway, worker: ApiWorker) -> None:
    client = DOCS / "examples" / "client.py"
    assert client.read_text() in (DOCS / "api.md").read_text()
    assert len(client.read_text().splitlines()) <= 41
    assert worker.login
    command = [sys.executable, str(client), gateway.url, worker.login.domain, uuid4().hex * 2, uuid4().hex]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    [subscription] = json.loads(ran.stdout)
    assert len(subscription["rules"]) == 2


def test_the_page_needs_nothing_from_elsewhere(client: Any) -> None:
    client.headers = {}
    page = client("GET", "/docs")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html")
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page.text)
    assert client("GET", "/openapi.json").json == document(resolver((STATEMENTS,)))


def test_what_is_the_same_for_everybody_may_be_kept_by_whoever_passes_it_on(client: Any) -> None:
    client.headers = {}
    for path in ("/docs", "/openapi.json"):
        assert client("GET", path).headers["Cache-Control"] == "public, max-age=3600"
    assert "Cache-Control" not in client("GET", "/v1/subscriptions").headers


def test_the_page_can_be_left_out(client: Any) -> None:
    settings = client.worker.settings.model_copy(update={"serve_docs": False})
    client.worker = replace(client.worker, settings=settings)
    assert client("GET", "/docs").json["type"].endswith("no-route")
    assert client("GET", "/openapi.json").status == 200
