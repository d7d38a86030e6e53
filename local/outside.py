"""All that Clarion talks to on one machine but for AWS: nodes, and stand-ins for the providers."""

import asyncio
import json
import time
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from clarion.networks import SIMPLEX, STATEMENTS, WALLETCONNECT, XMTP, ZULIP
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET
from infra.environments import EMULATOR
from local import keys, page, tls
from local.apns import Apns
from local.command_line import operate
from local.emulator import EmulatedDeployment
from local.fcm import Fcm
from local.keys import ApnsKeyPair, ServiceAccount, VapidKeyPair
from local.ports import reserved_port
from local.simplex.network import SimplexNetwork
from local.store import StatementStore
from local.tls import Localhost
from local.walletconnect.hosts import HOSTS
from local.walletconnect.network import WalletConnectNetwork
from local.webhook import Webhook
from local.webpush import PushService
from local.xmtp_node import DevelopmentNode, XmtpNetwork

BUNDLE_ID = "io.pcf.polkadotapp"
API_SECRET = "the secret that the app's backend shares with Clarion"  # noqa: S105 - of this machine alone


@dataclass(frozen=True)
class Credentials:
    """What the deployment and the stand-ins share, made anew each time."""

    localhost: Localhost
    apns: ApnsKeyPair
    google: ServiceAccount
    vapid: VapidKeyPair
    bouncer: BouncerKeys

    @classmethod
    def made(cls, folder: Path) -> Self:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        apns, google, vapid = keys.generate_apns_key(), keys.generate_service_account(), keys.generate_vapid_key()
        return cls(tls.issue(folder, *HOSTS), apns, google, vapid, BouncerKeys().rotated(int(time.time())))

    @property
    def bouncer_public_key(self) -> str:
        [public_key] = self.bouncer.opening
        return public_key

    def store_in(
        self, deployment: EmulatedDeployment, token_uri: str, webhook_secret: str, networks: Collection[str]
    ) -> None:
        """As an operator would: docs/operations.md, "Secrets"."""
        emulator, outputs = deployment.emulator, deployment.outputs
        secrets = emulator.session.client("secretsmanager", endpoint_url=emulator.endpoint)
        apns = {"team_id": self.apns.team_id, "key_id": self.apns.key_id, "private_key": self.apns.private_key}
        secrets.put_secret_value(SecretId=outputs.apns_secret_id, SecretString=json.dumps(apns))
        secrets.put_secret_value(SecretId=outputs.fcm_secret_id, SecretString=self.google.as_json(token_uri))
        secrets.put_secret_value(SecretId=outputs.webpush_secret_id, SecretString=self.vapid.as_json())
        if outputs.webhook_secret_id:
            # A version before this one has no webhook.
            secrets.put_secret_value(SecretId=outputs.webhook_secret_id, SecretString=webhook_secret)
        if ZULIP in networks:
            secrets.put_secret_value(SecretId=f"{outputs.table_prefix}{BOUNCER_SECRET}", SecretString=self.bouncer.text)
        if WALLETCONNECT in networks:
            operate(emulator, "walletconnect", "create-keys", "--yes")
        if SIMPLEX in networks:
            operate(emulator, "simplex", "identity", "create", "--yes")
        secrets.put_secret_value(SecretId=outputs.jwt_secret_id, SecretString=json.dumps({"secret": API_SECRET}))


@dataclass(frozen=True)
class Outside:
    """All that Clarion talks to, but for AWS."""

    store: StatementStore
    xmtp: XmtpNetwork
    walletconnect: WalletConnectNetwork
    simplex: SimplexNetwork
    apns: Apns
    fcm: Fcm
    webpush: PushService
    webhook: Webhook
    page_origin: str
    ca_file: str

    @classmethod
    async def started(cls, stack: AsyncExitStack, credentials: Credentials) -> Self:
        localhost, context = credentials.localhost, credentials.localhost.server_context()
        ports = [stack.enter_context(reserved_port()) for _ in range(2)]
        nodes = [await stack.enter_async_context(DevelopmentNode(localhost, port=port)) for port in ports]
        webpush = await stack.enter_async_context(PushService(context))
        return cls(
            store=await stack.enter_async_context(StatementStore()),
            xmtp=XmtpNetwork(*nodes),
            walletconnect=await WalletConnectNetwork.started(stack, localhost),
            simplex=await SimplexNetwork.started(stack, EMULATOR.apps[0].name),
            apns=await stack.enter_async_context(Apns(context, known=[credentials.apns], topics=[BUNDLE_ID])),
            fcm=await stack.enter_async_context(Fcm(context, account=credentials.google)),
            webpush=webpush,
            webhook=await stack.enter_async_context(Webhook(context)),
            page_origin=stack.enter_context(page.serving(webpush.control)),
            ca_file=str(localhost.ca_file),
        )

    @property
    def stand_ins(self) -> dict[str, str]:
        """As the context of CDK names them."""
        return {
            "apns_url": self.apns.url,
            "apns_sandbox_url": self.apns.url,
            "fcm_url": self.fcm.url,
            "push_services": self.webpush.url.removeprefix("https://"),
            "origins": self.page_origin,
            "webhook_stand_in_url": self.webhook.push_url,
            "ca_file": self.ca_file,
            WALLETCONNECT: json.dumps(self.walletconnect.options),
            SIMPLEX: json.dumps(self.simplex.options),
        }

    @property
    def followed(self) -> dict[str, str]:
        """Whom ingest follows, as its settings have it."""
        relays = [self.walletconnect.relay.url]
        nodes = {STATEMENTS: [self.store.url], XMTP: self.xmtp.urls, WALLETCONNECT: relays}
        options = {WALLETCONNECT: self.walletconnect.options, SIMPLEX: self.simplex.options}
        return {"nodes": json.dumps(nodes), "options": json.dumps(options), "ca_file": self.ca_file}

    async def until_followed(self, networks: Collection[str]) -> None:
        watched = [self.store.until_watched()]
        if XMTP in networks:
            watched += [node.until_watched() for node in self.xmtp.nodes]
        if WALLETCONNECT in networks:
            watched.append(self.walletconnect.relay.until_watched())
        await asyncio.gather(*watched)
