"""The web app of `local/web` in Chromium, with its service worker."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, override
from urllib.parse import urlencode

from local.emulator import ROOT
from tests.local.chromium import DevTools, Target

NOTIFICATIONS = """
    navigator.serviceWorker.ready
        .then((registration) => registration.getNotifications())
        .then((shown) => shown.map(({ title, body, data }) => ({ title, body, data })))
"""
CLICK = """
    registration.getNotifications().then(([notification]) => {
        dispatchEvent(new NotificationEvent("notificationclick", { notification }));
    })
"""


class WebApp:
    """The page in a tab, and its service worker."""

    def __init__(self, devtools: DevTools, page: Target, origin: str, **parameters: str) -> None:
        """`parameters` are those of the page's address."""
        self._devtools = devtools
        self._origin = origin
        self._address = f"{origin}/?{urlencode(parameters)}"
        self.page = page

    async def open(self) -> None:
        """Return once the service worker is active."""
        await self._devtools.call("Browser.grantPermissions", origin=self._origin, permissions=["notifications"])
        await self.page.call("ServiceWorker.enable")
        await self.page.call("BackgroundService.setRecording", service="pushMessaging", shouldRecord=True)
        await self.page.call("BackgroundService.startObserving", service="pushMessaging")
        await self.page.call("Page.navigate", url=self._address)
        await self.until_status("Ready.")
        await self.page.event("ServiceWorker.workerVersionUpdated", self._is_activated)

    def _is_activated(self, update: dict[str, Any]) -> bool:
        for version in update["versions"]:
            if version["scriptURL"].startswith(f"{self._origin}/") and version["status"] == "activated":
                self._registration = version["registrationId"]
                return True
        return False

    def _is_completed_push(self, recorded: dict[str, Any]) -> bool:
        event = recorded["backgroundServiceEvent"]
        return (event["origin"], event["eventName"]) == (f"{self._origin}/", "Push event completed")

    async def until_status(self, text: str) -> None:
        await self.page.until(f"document.querySelector('#status')?.textContent === {json.dumps(text)}")

    async def push(self, payload: str) -> dict[str, Any]:
        """The notification that the service worker shows for it, the first one."""
        await self.page.call(
            "ServiceWorker.deliverPushMessage", origin=self._origin, registrationId=self._registration, data=payload
        )
        # Not by polling for the notification: Chromium forgets one that is asked for while it is about to be shown.
        completed = await self.page.event("BackgroundService.backgroundServiceEventReceived", self._is_completed_push)
        assert completed["backgroundServiceEvent"]["eventMetadata"] == [{"key": "Status", "value": "Success"}]
        notifications: list[dict[str, Any]] = await self.page.evaluate(NOTIFICATIONS)
        [shown] = notifications
        return shown

    async def click_notification(self) -> None:
        worker = await self._devtools.service_worker(self._origin)
        await worker.evaluate(CLICK)


def subscribing(subscription: dict[str, Any]) -> str:
    """A script by which the page gets this subscription: a headless browser has no push service to ask."""
    return f"""
        PushManager.prototype.subscribe = async (options) => {{
            window.subscribedWith = options;
            return {json.dumps(subscription)};
        }};
    """


@contextmanager
def serving() -> Iterator[str]:
    """The origin at which the web app is."""
    handler = partial(_Files, directory=str(ROOT / "local" / "web"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


class _Files(SimpleHTTPRequestHandler):
    @override
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
