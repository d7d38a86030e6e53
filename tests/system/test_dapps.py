"""The dapps' API through the deployed stack: each call of a project, and what a subscriber's wallet then has."""

import asyncio
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from local.system import PATIENCE, System
from local.walletconnect.account import EthereumAccount
from local.walletconnect.dapp import DappBackend
from local.walletconnect.story import dapp_site

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

URL = "https://dapp.example/swaps/17"


async def asked(backend: DappBackend, method: str, path: str, body: Any = None) -> httpx.Response:
    """`{project}` in the path is the backend's."""
    headers = {"Authorization": f"Bearer {backend.secret}"}
    path = path.replace("{project}", backend.project_id)
    return await backend.http.request(method, path, json=body, headers=headers)


async def test_a_project_is_answered_whatever_it_may_ask(system: System) -> None:
    domain, account = f"{uuid4().hex[:8]}.dapp.example", EthereumAccount(uuid4().hex)
    async with (
        asyncio.timeout(3 * PATIENCE),
        dapp_site(system, domain, "News") as site,
        system.walletconnect.wallet(account) as wallet,
    ):
        backend, [news] = site.backend, site.dapp.types
        welcome = {"enabled": True, "type": news.id, "title": "Welcome", "body": "Glad that you came", "url": URL}
        assert (await asked(backend, "POST", "/v0/{project}/welcome-notification", welcome)).status_code == 204
        assert (await asked(backend, "GET", "/v0/{project}/welcome-notification")).json() == welcome

        await wallet.register(domain)
        subscription = await wallet.subscribe(site.dapp, [news.id])
        assert (await wallet.message()).content["title"] == "Welcome"
        assert (await asked(backend, "GET", "/{project}/subscribers")).json() == [wallet.account]
        shown = await asked(backend, "POST", "/v1/{project}/subscribers", {"accounts": [wallet.account]})
        assert shown.json() == {wallet.account: {"notification_types": [news.id]}}

        notification = {"type": news.id, "title": "Done", "body": "Your swap", "url": URL}
        await backend.notify([wallet.account], notification, "swap-17")
        message = (await wallet.message()).content
        repeated = {"notification_id": "swap-17", "notification": notification, "accounts": [wallet.account]}
        answer = await asked(backend, "POST", "/v1/{project}/notify", [repeated])
        assert answer.json() == {"sent": [wallet.account], "failed": [], "not_found": []}

        followed = await backend.http.get(urlsplit(message["url"]).path)
        assert (followed.status_code, followed.headers["location"]) == (307, URL)

        assert {each["is_read"] for each in (await wallet.history(subscription))["nfs"]} == {False}
        assert (await asked(backend, "GET", "/v1/{project}/mark-all-as-read")).status_code == 204
        assert [each["is_read"] for each in (await wallet.history(subscription))["nfs"]] == [True, True]
