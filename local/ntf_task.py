"""SimpleX's notification server, as ECS would run it behind its balancer, but on this machine."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clarion.channels import Channel
from clarion.networks import SIMPLEX, network
from clarion.settings import PREFIX
from infra.environments import EMULATOR
from local.emulator import ROOT, EmulatedDeployment, EmulatorError, python_path
from local.ports import reserved_port
from local.simplex.network import SimplexNetwork
from local.tasks import as_role, running_task

NTF_LOG = "ntf.log"
_HERE = "127.0.0.1"
_PATIENCE_S = 300.0
_BOUNDS = {"connections_per_second": 1_000.0, "registrations_at_once": 100_000, "task_registrations_at_once": 100_000}
"""All agents have this machine's address."""


@contextmanager
def serving_ntf(
    deployment: EmulatedDeployment,
    simplex: SimplexNetwork,
    *,
    checkout: Path = ROOT,
    log: str = NTF_LOG,
) -> Iterator[None]:
    """It accepts connections inside. Raises `EmulatorError` if it does not in time."""
    with reserved_port() as health_port:
        settings = {**_settings(deployment, simplex), "health_port": str(health_port)}
        variables = {
            **as_role(deployment.emulator, deployment.outputs.ntf_role_arn),
            **{f"{PREFIX}{name.upper()}": value for name, value in settings.items()},
        }
        with running_task("ntf", deployment.emulator.folder / log, {**python_path(checkout), **variables}):
            _await(int(settings["port"]))
            yield


def _settings(deployment: EmulatedDeployment, simplex: SimplexNetwork) -> dict[str, str]:
    outputs = deployment.outputs
    return {
        "stage": EMULATOR.stage,
        "network": SIMPLEX,
        "table_prefix": outputs.table_prefix,
        "secrets": json.dumps({name: f"{outputs.table_prefix}{name}" for name in network(SIMPLEX).needs.secrets}),
        "push_queues": json.dumps({Channel.APNS: outputs.queue_url(Channel.APNS)}),
        "events_stream": outputs.events_stream,
        "late_events_queue_url": outputs.late_events_queue_url,
        "command_queue_url": outputs.queue_url(f"{SIMPLEX}-commands"),
        "options": json.dumps(simplex.options),
        "host": _HERE,
        "port": str(simplex.port),
        "bounds": json.dumps(_BOUNDS),
    }


def _await(port: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection((_HERE, port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise EmulatorError(f"SimpleX's notification server does not answer; see {NTF_LOG} beside the emulator's log")
