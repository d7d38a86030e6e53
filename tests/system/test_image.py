"""The image that ECS runs, built by its Dockerfile and run as the task's definition has it, beside the deployed stack."""

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from local.containers import HERE, Container, Podman, PodmanError, running
from local.image import build, import_base
from local.ports import reserved_port
from local.system import PATIENCE, System, task_variables

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]
FILES = ("CLARION_CA_FILE", "AWS_CONFIG_FILE")
"""The variables that name one."""


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    if not (shutil.which("podman") and shutil.which("runc")) or os.geteuid() != 0:
        pytest.skip("no podman here that may run containers")
    with TemporaryDirectory(prefix="podman-", ignore_cleanup_errors=True) as folder:
        podman = Podman(Path(folder))
        try:
            podman("run", "--rm", *HERE, import_base(podman), "python", "--version")
        except PodmanError as error:
            pytest.skip(f"podman runs no container here: {error}")
        yield podman


def with_readable_files(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The same, with copies of the files for whoever the image runs as."""
    copied = {name: folder / Path(variables[name]).name for name in FILES}
    for name, copy in copied.items():
        shutil.copy(variables[name], copy)
        copy.chmod(0o644)
    folder.chmod(0o755)
    return {**variables, **{name: str(copy) for name, copy in copied.items()}}


@pytest.fixture(scope="module")
def image(podman: Podman) -> str:
    return build(podman)


async def test_the_image_has_all_that_the_ntf_server_is_made_of(podman: Podman, image: str) -> None:
    program = """import os
os.environ["OPENSSL_CONF"] = "/app/ntf/openssl.cnf"
import ssl, ntf.__main__, ntf.program
print(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).get_ciphers()[0]["name"])"""
    answer = await asyncio.to_thread(podman, "run", "--rm", *HERE, "--entrypoint", "python", image, "-c", program)
    assert answer == "TLS_CHACHA20_POLY1305_SHA256"


async def until_healthy(task: Container) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(task.is_healthy):
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(task.log) from None


async def test_the_image_becomes_healthy_as_the_task_is_run_and_hands_over_on_sigterm(
    podman: Podman, image: str, system: System, tmp_path: Path
) -> None:
    with reserved_port() as port:
        variables = with_readable_files(task_variables(system.deployment, system.followed, port), tmp_path)
        with running(podman, image, variables, [tmp_path]) as task:
            await until_healthy(task)
            assert podman("inspect", "--format", "{{.Config.User}}", task.name) == "ingest"
            assert await asyncio.to_thread(task.stop) == 0
            assert "handing over" in task.log
