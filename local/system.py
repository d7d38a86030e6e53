"""All of Clarion on one machine: the stand-ins, the stack deployed into the emulator, and the ingest task beside it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from clarion import statement
from clarion.messages import StatementMessage
from infra.config import Stubs
from infra.environments import EMULATOR
from local import keys, tls
from local.apns import Apns
from local.device import Api, Device, Rule
from local.emulator import ROOT, Deployment, deployed
from local.fcm import Fcm
from local.keys import ApnsKey, ServiceAccount
from local.lake import Lake
from local.provider import Push
from local.store import StatementStore
from local.tls import Localhost

BUNDLE_ID = "io.pcf.polkadotapp"
API_SECRET = "the secret that the app's backend shares with Clarion"  # noqa: S105 - of this machine alone
API_TIMEOUT = 30.0
START_TIMEOUT = 30.0
PATIENCE = 30.0
"""Seconds until something that should happen is given up on."""
INGEST_LOG = "ingest.log"

type Progress = Callable[[str], None]
"""Told of each step as it begins."""


@dataclass(frozen=True)
class System:
    store: StatementStore
    apns: Apns
    fcm: Fcm
    deployment: Deployment
    lake: Lake

    def client(self, service: str) -> Any:
        """Boto3's client of an AWS service, here the emulator's."""
        emulator = self.deployment.emulator
        return emulator.session.client(service, endpoint_url=emulator.endpoint)  # type: ignore[call-overload] # by literals

    def counted_by_ingest(self, metric: str) -> int:
        """How often the ingest task has counted this so far, as its metrics tell every ten seconds."""
        lines = (self.deployment.emulator.folder / INGEST_LOG).read_text().splitlines()
        told = (json.loads(line) for line in lines if '"_aws"' in line)
        return sum(int(sum(metrics.get(metric, ()))) for metrics in told)

    @asynccontextmanager
    async def api_of(self, device: Device) -> AsyncIterator[Api]:
        """The API as `device` sees it, signed in."""
        headers = {"Host": self.deployment.api_host, "Authorization": f"Bearer {device.api_token(API_SECRET)}"}
        url = self.deployment.api_url
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=API_TIMEOUT) as client:
            yield Api(client)

    async def register(self, device: Device, notify_type: str, token: str, *rules: Rule) -> str:
        """The id of a new subscription of `device`, to whom the rules' senders get through."""
        async with self.api_of(device) as api:
            subscription = await api.register(notify_type, token)
            await api.replace_rules(subscription, *rules)
        return subscription

    async def push_of(self, raw: bytes, seconds: float = PATIENCE) -> Push:
        """The push of this statement that APNs accepted first, once it is there."""
        name, journal = statement.decode(raw).hash.hex(), self.apns.received
        async with asyncio.timeout(seconds):
            while True:
                for push in journal:
                    if push.accepted and push.headers.get("apns-collapse-id") == name:
                        return push
                await journal.until(journal.count + 1)

    async def hand_to_match(self, message: StatementMessage) -> None:
        """Past ingest, as a second ingest task would."""
        queue = self.deployment.outputs.statements_queue_url
        await asyncio.to_thread(self.client("sqs").send_message, QueueUrl=queue, MessageBody=message.to_json())


@asynccontextmanager
async def running(name: str, tell: Progress) -> AsyncIterator[System]:
    """Start everything, in the order in which it needs each other. What it writes lies in `.build/<name>`."""
    async with AsyncExitStack() as stack:
        tell("keys and certificates")
        credentials = await asyncio.to_thread(_Credentials.made, ROOT / ".build" / f"{name}-keys")
        tell("a statement store, and stand-ins for APNs and FCM")
        context = credentials.localhost.server_context()
        store = await stack.enter_async_context(StatementStore())
        apns = await stack.enter_async_context(Apns(context, known=[credentials.apns], topics=[BUNDLE_ID]))
        fcm = await stack.enter_async_context(Fcm(context, account=credentials.google))
        tell("the AWS emulator, and `cdk deploy` into it")
        stubs = Stubs.model_validate(
            {"apns_url": apns.url, "fcm_url": fcm.url, "ca_file": str(credentials.localhost.ca_file)}
        )
        deployment = await asyncio.to_thread(stack.enter_context, deployed(name, stubs))
        await asyncio.to_thread(credentials.store_in, deployment, fcm.token_uri)
        tell("the ingest task, and its subscription to the statement store")
        stack.enter_context(_ingesting(deployment, store.url))
        await asyncio.wait_for(store.until_watched(), START_TIMEOUT)
        emulator = deployment.emulator
        s3 = emulator.session.client("s3", endpoint_url=emulator.endpoint)
        yield System(store, apns, fcm, deployment, Lake(s3, deployment.outputs.lake_bucket))


@dataclass(frozen=True)
class _Credentials:
    """What the deployment and the stand-ins share, made anew each time."""

    localhost: Localhost
    apns: ApnsKey
    google: ServiceAccount

    @classmethod
    def made(cls, folder: Path) -> Self:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(tls.issue(folder), keys.generate_apns_key(), keys.generate_service_account())

    def store_in(self, deployment: Deployment, token_uri: str) -> None:
        """As an operator would: docs/operations.md, "Secrets"."""
        emulator, outputs = deployment.emulator, deployment.outputs
        secrets = emulator.session.client("secretsmanager", endpoint_url=emulator.endpoint)
        apns = {"team_id": self.apns.team_id, "key_id": self.apns.key_id, "private_key": self.apns.private_key}
        secrets.put_secret_value(SecretId=outputs.apns_secret_id, SecretString=json.dumps(apns))
        secrets.put_secret_value(SecretId=outputs.fcm_secret_id, SecretString=self.google.as_json(token_uri))
        secrets.put_secret_value(SecretId=outputs.jwt_secret_id, SecretString=json.dumps({"secret": API_SECRET}))


@contextmanager
def _ingesting(deployment: Deployment, node_url: str) -> Iterator[None]:
    """The ingest task as ECS would run it, but on this machine."""
    outputs, emulator = deployment.outputs, deployment.emulator
    variables = {
        **os.environ,
        **emulator.variables,
        "CLARION_STAGE": EMULATOR.stage,
        "CLARION_NODE_URLS": node_url,
        "CLARION_STATEMENTS_QUEUE_URL": outputs.statements_queue_url,
        "CLARION_OVERSIZE_BUCKET": outputs.oversize_bucket,
        "CLARION_EVENTS_STREAM": outputs.events_stream,
        "CLARION_TABLE_PREFIX": outputs.table_prefix,
        "CLARION_HEALTH_PORT": "0",
    }
    with (emulator.folder / INGEST_LOG).open("wb") as log:
        command = [sys.executable, "-m", "local.leash", sys.executable, "-m", "ingest"]
        task = subprocess.Popen(command, cwd=ROOT, env=variables, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            yield
        finally:
            task.communicate()  # closes standard input, which lets go of the leash
