"""From the first secrets to the removal of all, by the commands of docs/deploying.md and docs/recovering.md.

They run as they stand on the pages, against a deployment of the test's own; only its stage is another, and what Apple
gives. AWS's command line is started some 150 times: it comes from `tests.warm_aws`.
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from infra.environments import EMULATOR
from local.device import Device, topic_of
from local.emulator import ASSEMBLY, ASSETS, ROOT, take_down
from local.outside import API_SECRET
from local.system import System, running
from tests.pages import scripts, section
from tests.warm_aws import serving

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]

CHAT = topic_of("a chat that outlasts a deployment")
DEVICE = "d0d0" * 16
COMMAND_S = 1800
"""Each of their commands is a program of its own, which takes a busy machine a while to start."""


@pytest.fixture(scope="module", autouse=True)
def aws() -> Iterator[None]:
    with serving() as folder, pytest.MonkeyPatch.context() as patch:
        path = (str(folder), str(Path(sys.executable).parent), os.environ["PATH"])
        patch.setenv("PATH", os.pathsep.join(path))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system() -> AsyncIterator[System]:
    async with running("pages-test", lambda _: None) as system:
        yield system


def commands(page: str, heading: str) -> list[str]:
    """The shell's blocks below it, for the emulator's stage."""
    given = scripts(section(f"docs/{page}", heading))
    return [script.replace("clarion-prod-", EMULATOR.prefix) for script in given]


async def run(system: System, script: str, folder: Path = ROOT, **variables: str) -> str:
    """Each command has to succeed."""
    environment = {**os.environ, **system.deployment.emulator.variables, **variables}
    ended = await asyncio.to_thread(_ended, ["/bin/bash", "-euo", "pipefail", "-c", script], folder, environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def _ended(words: list[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )


async def test_the_secrets_are_put(system: System, tmp_path: Path) -> None:
    secrets = system.client("secretsmanager")

    def value(name: str) -> dict[str, str]:
        return dict(json.loads(secrets.get_secret_value(SecretId=f"{EMULATOR.prefix}{name}")["SecretString"]))

    apns, fcm = value("apns"), value("fcm")
    (tmp_path / f"AuthKey_{apns['key_id']}.p8").write_text(apns["private_key"])
    (tmp_path / "service-account.json").write_text(json.dumps(fcm))
    for name in ("apns", "fcm", "jwt"):
        secrets.put_secret_value(SecretId=f"{EMULATOR.prefix}{name}", SecretString="not filled in")
    (script,) = commands("deploying.md", "5. Secrets")

    made = f"echo {shlex.quote(API_SECRET)}"
    given = {"ABCDE12345": apns["team_id"], "FGHIJ67890": apns["key_id"], "openssl rand -hex 32": made}
    for example, ours in given.items():
        script = script.replace(example, ours)

    await run(system, script, tmp_path)

    assert (value("apns"), value("fcm"), value("jwt")) == (apns, fcm, {"secret": API_SECRET})


async def test_the_first_client_gets_the_first_push(system: System) -> None:
    (script,) = commands("deploying.md", "8. The first client")
    here = script.replace("$(output ApiUrl)", system.deployment.api_address)

    answer = json.loads(await run(system, here, DEVICE=DEVICE))
    (push,) = commands("deploying.md", "9. The first push")
    said = await run(system, push, DEVICE=DEVICE)

    assert answer["status"] == "active"
    assert said.startswith("delivered: attempt 1, status 200")


async def test_restored_tables_are_used_by_the_live_stack_that_comes_back(system: System) -> None:
    """Whatever the time: the emulator restores a table as it is."""
    alice, bob = Device("Alice, a friend"), Device("Bob, who registers once")
    await system.register(bob, "apns", "b0b2" * 16, (alice.public_key, CHAT))
    emulator = system.deployment.emulator
    assembly = emulator.folder / ASSEMBLY
    await asyncio.to_thread(system.ingest.close)
    await asyncio.to_thread(take_down, emulator, assembly)
    assert system.client("lambda").list_functions()["Functions"] == []
    left = {url.rpartition("/")[2] for url in system.client("sqs").list_queues()["QueueUrls"]}
    assert left == {f"{EMULATOR.prefix}deliveries", f"{EMULATOR.prefix}deliveries-dead"}
    arn = system.client("dynamodb").describe_table(TableName=f"{EMULATOR.prefix}rules")["Table"]["LatestStreamArn"]

    await run(system, "\n".join(commands("recovering.md", "Tables from a point in time")))

    table = system.client("dynamodb").describe_table(TableName=f"{EMULATOR.prefix}rules")["Table"]
    assert table["LatestStreamArn"] != arn
    again = await system.upgraded(assembly)
    hello = alice.statement(CHAT, data=b"hello again")
    await again.store.inject(hello)
    push = await again.push_of(hello)
    assert push.payload["statement"]["data"] == b"hello again".hex()


async def test_nothing_is_left_of_what_was_removed(system: System) -> None:
    emulator = system.deployment.emulator
    await asyncio.to_thread(take_down, emulator, emulator.folder / ASSEMBLY)
    look, remove, _ = commands("recovering.md", "The data stack")

    await run(system, f"{look}\n{remove}")

    left = system.client("dynamodb").list_tables()["TableNames"]
    assert all(name.endswith("-restored") for name in left)
    assert system.client("secretsmanager").list_secrets()["SecretList"] == []
    assert [bucket["Name"] for bucket in system.client("s3").list_buckets()["Buckets"]] == [ASSETS]
