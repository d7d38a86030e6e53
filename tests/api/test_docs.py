import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import jsonschema_rs
import pytest
import sr25519

from api.app import handle, resolver
from api.authorization import Authorizer
from api.openapi import document
from api.problems import ProblemKind
from api.proofs import PER_CLIENT, TO_RINGING_TOKEN, TO_TOKEN
from api.requests import REQUEST_SECONDS
from api.settings import ApiSettings
from api.worker import ApiWorker
from clarion.networks import NETWORKS, STATEMENTS, WALLETCONNECT
from clarion.proofs import ATTEMPTS, CODE_SECONDS, PENDING_MS
from local.gateway import Gateway

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

DOCS = Path(__file__).parents[2] / "docs"
API_PAGE = (DOCS / "api.md").read_text()
WALLETS = (DOCS / "walletconnect.md").read_text().partition("\n### Register a device\n")[2].partition("\n### ")[0]
EXAMPLE = re.compile(r"```sh\n(.*?)```\n```json\n(.*?)```", re.DOTALL)
ALL = tuple(NETWORKS)
SHOWN_MS = 1_800_000_000_000
"""When the examples are asked for, in UNIX milliseconds."""
SEPARATOR = "\n---- next example ----\n"


@pytest.fixture(scope="module")
def gateway(authorizer: Authorizer, pushing: Callable[..., ApiWorker]) -> Iterator[Gateway]:
    """A deployment that takes direct pushes, so that every example can succeed."""
    worker = pushing()
    settings = worker.settings.model_copy(update={"networks": (STATEMENTS, WALLETCONNECT)})
    worker = replace(worker, settings=settings, now=lambda: SHOWN_MS)
    with Gateway(authorizer, lambda event: handle(event, cast("LambdaContext", None), worker)) as running:
        yield running


def test_the_committed_description_is_that_of_the_code() -> None:
    assert json.loads((DOCS / "openapi.json").read_text()) == document(resolver(ALL), ALL), "run `make openapi`"


def test_the_page_says_how_long_a_request_begins_something_new() -> None:
    assert f"A request begins nothing new after {REQUEST_SECONDS} seconds." in API_PAGE


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
    rows = re.findall(r"^\| `CLARION_(\w+)` \| (\d+) \|", API_PAGE, re.MULTILINE)
    fields = ApiSettings.model_fields
    assert len(rows) == 8
    assert {name: int(value) for name, value in rows} == {name: fields[name.lower()].default for name, _ in rows}


def test_the_documented_limits_of_proofs_are_those_of_the_code() -> None:
    [table] = re.findall(r"^\| limit of \|.*?\n\n", API_PAGE, re.MULTILINE | re.DOTALL)
    documented = [int(value) for value in re.findall(r"^\| .+? \| (\d+) \|", table, re.MULTILINE)]
    rates = [PER_CLIENT, TO_TOKEN.per_client, TO_RINGING_TOKEN.per_client, TO_TOKEN.in_all, TO_RINGING_TOKEN.in_all]
    assert documented == [*(rate.limit for rate in rates), CODE_SECONDS / 3600, ATTEMPTS, PENDING_MS / 3_600_000]
    assert {rate.seconds for rate in rates} == {3600}


def test_the_pending_subscription_that_is_shown_is_one_as_described() -> None:
    [shown] = [each for each in re.findall(r"```json\n(.*?)```", API_PAGE, re.DOTALL) if '"proof"' in each]
    schemas = {"components": json.loads((DOCS / "openapi.json").read_text())["components"]}
    described = {"$ref": "#/components/schemas/SubscriptionState", **schemas}
    jsonschema_rs.validator_for(described, validate_formats=True).validate(json.loads(shown))


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples are for curl")
@pytest.mark.parametrize(("page", "count"), [(API_PAGE, 13), (WALLETS, 4)], ids=["statements", "wallets"])
def test_each_example_answers_what_it_says(
    gateway: Gateway, new_token: Callable[..., str], page: str, count: int
) -> None:
    examples = EXAMPLE.findall(page)
    assert len(examples) == count
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
        timeout=600,
        check=True,
    )
    for answer, (command, expected) in zip(ran.stdout.split(SEPARATOR), examples, strict=True):
        assert same(json.loads(answer), json.loads(expected)), command


def same(found: Any, expected: Any) -> bool:
    """`…` stands for anything."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(same(found[name], value) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(expected in ("…", found))


def test_the_page_needs_nothing_from_elsewhere(client: Any) -> None:
    client.headers = {}
    page = client("GET", "/docs")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html")
    assert re.findall(r"<(?:script|link)[^>]+(?:src|href)=([^>]+)>", page.text) == ['"data:,"']
    assert client("GET", "/openapi.json").json == document(resolver((STATEMENTS,)), (STATEMENTS,))


def test_the_page_runs_its_own_scripts_alone_and_reaches_its_own_api_alone(client: Any) -> None:
    client.headers = {}
    page = client("GET", "/docs")
    policy = dict(each.split(" ", 1) for each in page.headers["Content-Security-Policy"].split("; "))
    scripts = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    hashes = [f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts]
    assert len(hashes) == 2
    assert policy["script-src"] == " ".join(hashes)
    assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'self'")


def test_the_registration_that_the_page_proposes_is_taken(client: Any) -> None:
    schemas = document(resolver((STATEMENTS,)), (STATEMENTS,))["components"]["schemas"]
    [proposed] = schemas["NewSubscription"]["examples"]
    assert client("POST", "/v1/subscriptions", proposed).status == 201


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
