"""`clarion page`: the live page over a deployment, on the operator's own machine."""

import asyncio
from contextlib import suppress
from typing import override

from rich.text import Text

from console.deployment import Deployment
from console.output import Report, show
from console.page.deployed import DeployedPage
from console.page.server import serving


class PageAddress(Report):
    """Whoever has it can look. It is opened by hand: a browser's command line can be read by all who use the machine."""

    address: str

    @override
    def __rich__(self) -> Text:
        return Text(f"{self.address}\n\nCtrl-C ends it.")


def serve(here: Deployment, port: int, *, as_json: bool) -> None:
    with suppress(KeyboardInterrupt):
        asyncio.run(page(here, port, as_json=as_json))


async def page(here: Deployment, port: int, *, as_json: bool) -> None:
    """Until it is cancelled."""
    async with serving(DeployedPage(here).backend, port) as address:
        show(PageAddress(address=address), as_json=as_json)
        await asyncio.Event().wait()
