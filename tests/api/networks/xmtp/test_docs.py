import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from api.authorization import Authorizer
from api.networks.xmtp.codes import CallCode
from api.networks.xmtp.protocols import MEDIA_TYPES
from api.networks.xmtp.router import answer
from api.networks.xmtp.service import RPCS, XmtpWorker
from clarion.networks.xmtp.installations import subscription_id_of
from local.gateway import Gateway

PAGE = (Path(__file__).parents[4] / "docs" / "xmtp.md").read_text()
EXAMPLE = re.compile(r"```sh\n(.*?)```\n```json\n(.*?)```", re.DOTALL)
SEPARATOR = "\n---- next example ----\n"


@pytest.fixture(scope="module")
def gateway(authorizer: Authorizer, xmtp_worker: XmtpWorker) -> Iterator[Gateway]:
    with Gateway(authorizer, lambda event: dict(answer(event, xmtp_worker))) as running:
        yield running


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples are for curl")
def test_each_example_answers_what_it_says(gateway: Gateway, new_token: Callable[..., str]) -> None:
    examples = EXAMPLE.findall(PAGE)
    assert len(examples) == 6
    assert {method for method in RPCS if any(f"/{method}" in command for command, _ in examples)} == set(RPCS)
    script = f"printf '{SEPARATOR}'\n".join(command for command, _ in examples)
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],  # noqa: S607 - the reader's own shell
        env=os.environ | {"CLARION": gateway.url, "TOKEN": new_token(), "APNS_TOKEN": uuid4().hex * 2},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    for answered, (command, expected) in zip(ran.stdout.split(SEPARATOR), examples, strict=True):
        found, shown = json.loads(answered), json.loads(expected)
        assert found.keys() == shown.keys(), command
        assert all(shown[name] in ("…", value) for name, value in found.items()), command


def test_the_page_derives_an_installations_subscription_as_clarion_does() -> None:
    [shown] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    defined: dict[str, Callable[[str, str], str]] = {}
    exec(shown, defined)  # noqa: S102 - the page's own example
    client_id = bytes(range(32))
    assert defined["subscription_id_of"](client_id.hex(), "mine") == subscription_id_of(client_id, "mine")


def test_every_code_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \|", PAGE, re.MULTILINE)
    assert [(word, int(status), int(number)) for word, status, number in rows] == [
        (code.word, int(code.status), code.number) for code in CallCode
    ]


def test_every_media_type_is_named() -> None:
    spelt = {f"application/{name}" for name in ("json", "proto", "grpc-web", "grpc-web-text")}
    spelt |= {"application/grpc-web+proto", "application/grpc-web+json", "application/grpc-web-text+proto"}
    assert set(MEDIA_TYPES) == spelt
    for line in ("`application/json`", "`application/proto`", "`application/grpc-web`, `+proto`, `+json`"):
        assert line in PAGE
