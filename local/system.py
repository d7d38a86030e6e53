"""All of Clarion on one machine: the stand-ins, the stack deployed into the emulator, and the ingest task beside it."""

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, Unpack, cast

import httpx

from clarion.channels import CHANNELS
from clarion.messages import EnvelopeMessage
from clarion.networks import SIMPLEX, STATEMENTS, network
from clarion.networks.needs import Commander
from clarion.settings import PREFIX
from clarion_client import AsyncClient, rule
from clarion_client.models import Channel, SubscriptionChange
from infra.environments import EMULATOR
from ingest import health
from local.apns import Apns
from local.device import Device
from local.emulator import (
    ROOT,
    EmulatedDeployment,
    deploy,
    python_path,
    started,
    synthesise,
)
from local.fcm import Fcm
from local.lake import LocalLake
from local.lifetime import only_one
from local.notifications import ConnectNotificationsClient, HttpNotificationsClient, WireProtocol
from local.ntf_task import NTF_LOG, serving_ntf
from local.outside import API_SECRET, Credentials, Outside
from local.ports import reserved_port
from local.provider import ReceivedPush
from local.simplex.network import SimplexNetwork
from local.store import StatementStore
from local.tasks import as_role, running_task
from local.walletconnect.network import WalletConnectNetwork
from local.webhook import Webhook
from local.webpush import PushService
from local.xmtp_node import XmtpNetwork

PATIENCE = 300.0
"""Seconds until something that should happen is given up on: on a busy machine a Lambda's first start takes 30."""
_LAKE_LINGER_S = 0.25
"""A deployment's ingest lets a second pass, as AWS bills by the record; here an item is to be seen within a second."""
HELD_QUEUES = tuple(f"{channel}-held" for channel, spec in CHANNELS.items() if spec.has_held_queue)
COMMAND_QUEUES = {name: f"{name}-commands" for name in EMULATOR.networks if network(name).needs.commands}
TAKING_COMMANDS = [name for name in COMMAND_QUEUES if network(name).needs.takes_commands_of(Commander.SOURCE)]
QUEUES = ("envelopes", "pages", *CHANNELS, *HELD_QUEUES, *COMMAND_QUEUES.values(), "cleanup", "late-events")
DEAD_LETTER_QUEUES = tuple(f"{name}-dead" for name in QUEUES if not name.endswith("-held"))
INGEST_LOG = "ingest.log"
INGEST_LOGS = "ingest*.log"
"""That one and those of the tasks that take its place, which are called as their tests like."""
_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""The API is served in the clear. To load the public authorities takes as long as a request."""

type Progress = Callable[[str], None]
"""Called with each step as it begins."""


@dataclass(frozen=True)
class System:
    store: StatementStore
    xmtp: XmtpNetwork
    walletconnect: WalletConnectNetwork
    simplex: SimplexNetwork
    apns: Apns
    fcm: Fcm
    webpush: PushService
    webhook: Webhook
    application_server_key: str
    """What browsers subscribe with."""
    bouncer_public_key: str
    """What Zulip's app seals push tokens for."""
    page_origin: str
    """Of the page by which a browser gets pushes; it may call the API."""
    stand_ins: Mapping[str, str]
    """As the context of CDK names them."""
    followed: Mapping[str, str]
    """Whom ingest follows, as its settings have it."""
    deployment: EmulatedDeployment
    lake: LocalLake
    ingest: ExitStack
    """Closing it stops the ingest task."""
    ntf: ExitStack
    """Closing it stops SimpleX's notification server."""

    async def upgraded(self, assembly: Path) -> Self:
        """Deploy over what is there."""
        deployment = await asyncio.to_thread(deploy, self.deployment.emulator, assembly)
        await self.replace_ingest(ingesting(deployment, self.followed, log="ingest-after.log"))
        return replace(self, deployment=deployment)

    def ingesting(self, *, log: str = INGEST_LOG, **others: str) -> AbstractContextManager[int]:
        """The ingest task, by its health port; `others` are settings."""
        return ingesting(self.deployment, {**self.followed, **others}, log=log)

    async def replace_ingest(self, successor: AbstractContextManager[int]) -> None:
        """As ECS does: the task before is sent SIGTERM once the health check finds the new one ready."""
        predecessor = self.ingest.pop_all()
        port = self.ingest.enter_context(successor)
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(health.main, port):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.1)
        await asyncio.to_thread(predecessor.close)

    async def restart_ingest(self) -> None:
        """As if its one task were moved: the next one loads what this one has saved."""
        await asyncio.to_thread(self.ingest.close)
        await self._until(lambda: not any(self._subscribers))
        self.ingest.enter_context(self.ingesting(log="ingest-after.log"))
        await self.until_followed()

    def serving_ntf(self, *, log: str = NTF_LOG) -> AbstractContextManager[None]:
        """SimpleX's notification server."""
        return serving_ntf(self.deployment, self.simplex, log=log)

    async def until_followed(self) -> None:
        """Wait until ingest follows each node."""
        await self._until(lambda: all(self._subscribers))

    @property
    def _subscribers(self) -> list[int]:
        """How many tasks follow each node."""
        relay = self.walletconnect.relay
        return [self.store.subscribers, *(node.subscribers for node in self.xmtp.nodes), relay.subscribers]

    async def _until(self, subscribed: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not subscribed():  # noqa: ASYNC110 - it is another process that comes or goes
                await asyncio.sleep(0.1)

    def client(self, service: str) -> Any:
        """Boto3's client of an AWS service, here the emulator's."""
        emulator = self.deployment.emulator
        return emulator.session.client(service, endpoint_url=emulator.endpoint)  # type: ignore[call-overload] # by literals

    @property
    def queue_urls(self) -> dict[str, str]:
        """By the queue's bare name."""
        return {name: self.deployment.outputs.queue_url(name) for name in (*QUEUES, *DEAD_LETTER_QUEUES)}

    def messages(self) -> dict[str, int]:
        """How many there are, visible, in flight or delayed, in each queue that is not empty."""
        sqs = self.client("sqs")
        counts = {name: _count(sqs, url) for name, url in self.queue_urls.items()}
        return {name: count for name, count in counts.items() if count}

    def counted_by_ingest(self, metric: str) -> int:
        """How often ingest's tasks have counted this so far, as their metrics say every ten seconds."""
        return counted_in(self.deployment.emulator.folder, metric)

    @asynccontextmanager
    async def api_of(self, device: Device) -> AsyncIterator[AsyncClient]:
        """The API as `device` sees it, signed in."""
        async with self.http_of(device) as client:
            yield AsyncClient(client)

    @asynccontextmanager
    async def notifications_of(self, device: Device, *, binary: bool = False) -> AsyncIterator[HttpNotificationsClient]:
        """The API for XMTP as `device` sees it, signed in; with `binary` in protobuf."""
        async with self.http_of(device) as client:
            yield HttpNotificationsClient(client, binary=binary)

    def connect_client_of(self, device: Device, protocol: WireProtocol) -> ConnectNotificationsClient:
        """The same, by the Connect client of XMTP's apps."""
        return ConnectNotificationsClient(self.deployment.api_url, self._headers_of(device), protocol)

    def http_of(self, device: Device) -> httpx.AsyncClient:
        """Signed in."""
        url, headers = self.deployment.api_url, self._headers_of(device)
        return httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE, verify=_NO_AUTHORITIES)

    def _headers_of(self, device: Device) -> dict[str, str]:
        return {"Host": self.deployment.api_host, "Authorization": f"Bearer {device.api_token(API_SECRET)}"}

    async def register(
        self,
        device: Device,
        channel: str,
        token: str,
        *rules: tuple[bytes, bytes],
        **options: Unpack[SubscriptionChange],
    ) -> str:
        """The id of a new subscription of `device`; each rule is a sender's public key and a topic."""
        async with self.api_of(device) as api:
            registered = await api.register_subscription(cast("Channel", channel), token, **options)
            await api.replace_rules(registered["subscription_id"], [rule(*each) for each in rules])
        return registered["subscription_id"]

    async def push_of(self, raw: bytes, seconds: float = PATIENCE, *, of: str = STATEMENTS) -> ReceivedPush:
        """The push that APNs accepted first of this statement, or envelope of another network, once it is there."""
        collapse_id, journal = network(of).decode(raw).id.hex(), self.apns.received
        async with asyncio.timeout(seconds):
            while True:
                for push in journal:
                    if push.accepted and push.headers.get("apns-collapse-id") == collapse_id:
                        return push
                await journal.until(journal.count + 1)

    async def hand_to_match(self, message: EnvelopeMessage) -> None:
        """Past ingest, as a second ingest task would."""
        queue = self.deployment.outputs.envelopes_queue_url
        await asyncio.to_thread(self.client("sqs").send_message, QueueUrl=queue, MessageBody=message.to_json())


def counted_in(folder: Path, metric: str) -> int:
    """By all tasks whose logs are there: a test may have replaced the first one."""
    lines = (line for log in folder.glob(INGEST_LOGS) for line in whole_lines(log))
    flushed = (json.loads(line) for line in lines if '"_aws"' in line)
    return sum(sum(_counts(metrics.get(metric, ()))) for metrics in flushed)


def _counts(logged: int | Sequence[float]) -> Iterable[int]:
    """A recorded metric has a list of values, and what is only logged has one."""
    return [logged] if isinstance(logged, int) else map(int, logged)


def whole_lines(log: Path) -> list[str]:
    """Of a file that grows: without what follows the last end of a line."""
    return log.read_text().rpartition("\n")[0].splitlines()


def _count(sqs: Any, queue_url: str) -> int:
    counts = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["All"])["Attributes"]
    return sum(int(value) for name, value in counts.items() if name.startswith("ApproximateNumberOfMessages"))


@asynccontextmanager
async def running(name: str, progress: Progress, checkout: Path = ROOT) -> AsyncIterator[System]:
    """Start everything, in the order in which it needs each other. What it writes lies in `.build/<name>`.

    Raises `AlreadyRunningError`, and `EmulatorError`.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(only_one(ROOT / ".build" / name))
        progress("keys and certificates")
        credentials = await asyncio.to_thread(Credentials.made, ROOT / ".build" / f"{name}-keys")
        progress("nodes, relays and servers of all networks, and stand-ins for APNs, FCM, browsers and a webhook")
        outside = await Outside.started(stack, credentials)
        progress("the AWS emulator, and `cdk deploy` into it")
        emulator = await asyncio.to_thread(stack.enter_context, started(name))
        networks = _networks(checkout)
        stand_ins = {name: value for name, value in outside.stand_ins.items() if name not in _missing(networks)}
        assembly = await asyncio.to_thread(synthesise, emulator, stand_ins, checkout=checkout)
        deployment = await asyncio.to_thread(deploy, emulator, assembly)
        outside.walletconnect.put_before(deployment)
        await asyncio.to_thread(
            credentials.store_in, deployment, outside.fcm.token_uri, outside.webhook.secret_as_json(), networks
        )
        progress("the ingest task with its subscriptions to the nodes, and SimpleX's notification server")
        ingest = stack.enter_context(ExitStack())
        ingest.enter_context(ingesting(deployment, outside.followed, checkout=checkout))
        ntf = stack.enter_context(ExitStack())
        if SIMPLEX in networks:
            ntf.enter_context(serving_ntf(deployment, outside.simplex, checkout=checkout))
        async with asyncio.timeout(PATIENCE):
            await outside.until_followed(networks)
        yield _system(outside, credentials, deployment, ingest, ntf)


def _system(
    outside: Outside, credentials: Credentials, deployment: EmulatedDeployment, ingest: ExitStack, ntf: ExitStack
) -> System:
    s3 = deployment.emulator.session.client("s3", endpoint_url=deployment.emulator.endpoint)
    return System(
        store=outside.store,
        xmtp=outside.xmtp,
        walletconnect=outside.walletconnect,
        simplex=outside.simplex,
        apns=outside.apns,
        fcm=outside.fcm,
        webpush=outside.webpush,
        webhook=outside.webhook,
        application_server_key=credentials.vapid.application_server_key,
        bouncer_public_key=credentials.bouncer_public_key,
        page_origin=outside.page_origin,
        stand_ins=outside.stand_ins,
        followed=outside.followed,
        deployment=deployment,
        lake=LocalLake(s3, deployment.outputs.lake_bucket),
        ingest=ingest,
        ntf=ntf,
    )


@contextmanager
def ingesting(
    deployment: EmulatedDeployment, followed: Mapping[str, str], *, checkout: Path = ROOT, log: str = INGEST_LOG
) -> Iterator[int]:
    """The ingest task as ECS would run it, with as much time to stop, but on this machine; yields its health port."""
    with reserved_port() as health_port:
        own = task_variables(deployment, followed, health_port, checkout=checkout)
        with running_task("ingest", deployment.emulator.folder / log, {**python_path(checkout), **own}):
            yield health_port


def task_variables(
    deployment: EmulatedDeployment, followed: Mapping[str, str], health_port: int, *, checkout: Path = ROOT
) -> dict[str, str]:
    """What the task's definition sets, and by which the SDK takes the task's role.

    `followed` are those of its settings that say whom it follows, and perhaps others.
    """
    outputs, emulator, networks = deployment.outputs, deployment.emulator, _networks(checkout)
    commands = {name: outputs.queue_url(COMMAND_QUEUES[name]) for name in TAKING_COMMANDS if name in networks}
    settings = {
        "stage": EMULATOR.stage,
        "networks": ",".join(name for name in EMULATOR.followed_networks if name in networks),
        "command_queues": json.dumps(commands),
        "envelopes_queue_url": outputs.envelopes_queue_url,
        "oversize_bucket": outputs.oversize_bucket,
        "events_stream": outputs.events_stream,
        "late_events_queue_url": outputs.late_events_queue_url,
        "table_prefix": outputs.table_prefix,
        "health_port": str(health_port),
        "lake_linger_seconds": str(_LAKE_LINGER_S),
        "secrets": json.dumps(_ingest_secrets(outputs.table_prefix)),
        **{name: _without(_missing(networks), value) for name, value in followed.items()},
    }
    known = set(settings)
    if checkout != ROOT:
        settings, known = settings | _nodes_by_option(followed["nodes"]), _ingest_settings(checkout)
    return {
        **as_role(emulator, outputs.ingest_role_arn),
        **{f"{PREFIX}{name.upper()}": value for name, value in settings.items() if name in known},
    }


def _ingest_secrets(prefix: str) -> dict[str, str]:
    """The ids of those that sources read, by their bare names."""
    return {each: f"{prefix}{each}" for name in EMULATOR.networks for each in network(name).needs.ingest_secrets}


def _missing(networks: Collection[str]) -> set[str]:
    """Those that another version doesn't know."""
    return set(EMULATOR.networks) - set(networks)


def _without(names: Collection[str], setting: str) -> str:
    """Leave out what is said of these networks, if it is said by network."""
    if not setting.startswith("{"):
        return setting
    return json.dumps({name: value for name, value in json.loads(setting).items() if name not in names})


def _nodes_by_option(nodes: str) -> dict[str, str]:
    """A version before this one has a setting for the nodes of each network."""
    return {
        needed.option: json.dumps(urls)
        for name, urls in json.loads(nodes).items()
        if (needed := network(name).needs.nodes)
    }


def _ingest_settings(checkout: Path) -> set[str]:
    """The names that another version knows; it refuses to start with one that it doesn't."""
    return _printed(checkout, "from ingest.settings import IngestSettings; print(*IngestSettings.model_fields)")


def _networks(checkout: Path) -> list[str]:
    """Those that are deployed, and that another version knows."""
    known = (
        EMULATOR.networks
        if checkout == ROOT
        else _printed(checkout, "from clarion.networks import NETWORKS; print(*NETWORKS)")
    )
    return [name for name in EMULATOR.networks if name in known]


def _printed(checkout: Path, program: str) -> set[str]:
    """The words that another version's code prints."""
    variables = {**os.environ, **python_path(checkout)}
    printed = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    return set(printed.stdout.split())
