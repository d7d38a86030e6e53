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
`system.lake.growing(seconds)` tells what was decided.
"""

from collections.abc import AsyncIterator

import pytest_asyncio

from local.system import System, running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def system() -> AsyncIterator[System]:
    async with running("system-test", lambda _: None) as system:
        yield system
