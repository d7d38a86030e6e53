"""The NTF server as ECS starts it: by the template's command, with the template's environment, under its own role."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template

from clarion.networks import SIMPLEX, STATEMENTS
from infra.environments import EMULATOR, PROD
from local.emulator import ROOT, python_path
from local.ports import reserved_port
from local.simplex.agent import Agent
from local.simplex.agent_state import AgentState
from local.system import System
from local.tasks import as_role
from tests.infra.test_ntf import container, templates

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

PATIENCE = 120
DEVICE = "4e" * 32
PUBLISHED = "PublishOutputRef"
"""What CDK calls that a stack hands over to another."""


@dataclass(frozen=True)
class StartedServer:
    port: int
    process: subprocess.Popen[str]

    async def logged(self, message: str) -> Mapping[str, Any]:
        """Waits for the line that says so."""
        async with asyncio.timeout(PATIENCE):
            assert self.process.stdout
            while line := await asyncio.to_thread(self.process.stdout.readline):
                if line.startswith("{") and (found := json.loads(line)).get("message") == message:
                    return dict(found)
        raise AssertionError(f"it has ended before {message!r}")


@pytest.fixture(scope="module")
def deployed() -> Mapping[str, Template]:
    """Production with SimpleX."""
    options = {"hosts": ["localhost"], "app": PROD.apps[0].name}
    return templates(networks=(STATEMENTS, SIMPLEX), options={SIMPLEX: options})


def environment(system: System, deployed: Mapping[str, Template]) -> dict[str, str]:
    """The container's, with the emulator's names in place of production's."""
    resources = deployed["stack"].to_json()["Resources"]

    def filled(value: Any) -> str:
        match value:
            case str():
                return value.replace(PROD.prefix, EMULATOR.prefix)
            case {"Fn::Join": [str(between), list(parts)]}:
                return between.join(map(filled, parts))
            case {"Fn::GetStackOutput": {"OutputName": str(output)}}:
                logical = output.removeprefix(PUBLISHED)
                (queue,) = [each for name, each in resources.items() if logical.startswith(name)]
                return system.deployment.outputs.queue_url(queue["Properties"]["QueueName"].removeprefix(PROD.prefix))
        raise AssertionError(value)

    return {each["Name"]: filled(each["Value"]) for each in container(deployed["ntf"])["Environment"]}


@contextmanager
def started(system: System, deployed: Mapping[str, Template]) -> Iterator[StartedServer]:
    deployment = system.deployment
    with reserved_port() as port, reserved_port() as health_port:
        variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CLARION_")},
            **as_role(deployment.emulator, deployment.outputs.ntf_role_arn),
            **python_path(ROOT),
            **environment(system, deployed),
            "CLARION_PORT": str(port),
            "CLARION_HEALTH_PORT": str(health_port),
        }
        python, *arguments = container(deployed["ntf"])["EntryPoint"]
        assert python == "python"
        with subprocess.Popen(
            [sys.executable, *arguments], env=variables, text=True, stdout=subprocess.PIPE
        ) as process:
            try:
                yield StartedServer(port, process)
            finally:
                process.kill()


async def test_an_agent_registers_by_tls_and_is_answered_until_the_task_has_to_end(
    system: System, deployed: Mapping[str, Template], tmp_path: Path
) -> None:
    address = await asyncio.to_thread(system.simplex.address, system.deployment)
    with started(system, deployed) as server:
        listening = await server.logged("listening")
        assert listening["identity"] == address.key_hash.hex()
        assert listening["port"] == server.port
        state = AgentState.loaded(tmp_path / "agent.json")
        async with Agent(state, replace(address, port=str(server.port))) as agent:
            async with asyncio.timeout(PATIENCE):
                await agent.register(DEVICE)
                assert await agent.status() in {"REGISTERED", "CONFIRMED"}
                stopping = asyncio.create_task(asyncio.to_thread(_stopped, server.process))
                assert (await server.logged("handing over"))["sessions"] == 1
                assert await stopping == 0
        async with Agent(AgentState.loaded(tmp_path / "agent.json"), address) as same:
            async with asyncio.timeout(PATIENCE):
                assert await same.status() in {"REGISTERED", "CONFIRMED"}, "by another task"
                await same.delete_token()


def _stopped(process: subprocess.Popen[str]) -> int:
    """How it ended."""
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE)
