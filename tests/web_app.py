"""The web app of `local/web` in Chromium, with its service worker."""

import json
from typing import Any
from urllib.parse import urlencode

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
        for service in ("pushMessaging", "notifications"):
            await self.page.call("BackgroundService.setRecording", service=service, shouldRecord=True)
            await self.page.call("BackgroundService.startObserving", service=service)
        await self.page.call("Page.navigate", url=self._address)
        await self.until_status("Ready.")
        await self.page.event("ServiceWorker.workerVersionUpdated", self._is_activated)

    def _is_activated(self, update: dict[str, Any]) -> bool:
        for version in update["versions"]:
            if version["scriptURL"].startswith(f"{self._origin}/") and version["status"] == "activated":
                self._registration = version["registrationId"]
                return True
        return False

    async def _recorded(self, name: str) -> dict[str, Any]:
        """The first event of this name in what Chromium records of this origin's worker."""

        def is_it(recorded: dict[str, Any]) -> bool:
            event = recorded["backgroundServiceEvent"]
            return (event["origin"], event["eventName"]) == (f"{self._origin}/", name)

        recorded = await self.page.event("BackgroundService.backgroundServiceEventReceived", is_it)
        event: dict[str, Any] = recorded["backgroundServiceEvent"]
        return event

    async def until_status(self, text: str) -> None:
        await self.page.until(f"document.querySelector('#status')?.textContent === {json.dumps(text)}")

    async def push(self, payload: str) -> dict[str, Any]:
        """The notification that the service worker shows for it, the first one."""
        await self.page.call(
            "ServiceWorker.deliverPushMessage", origin=self._origin, registrationId=self._registration, data=payload
        )
        completed = await self._recorded("Push event completed")
        assert completed["eventMetadata"] == [{"key": "Status", "value": "Success"}]
        return await self._shown()

    async def notification(self) -> dict[str, Any]:
        """The first one, once it is displayed."""
        # Not by polling for it: Chromium forgets one that is asked for while it is about to be shown.
        await self._recorded("Notification displayed")
        return await self._shown()

    async def _shown(self) -> dict[str, Any]:
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
