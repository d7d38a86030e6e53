"""AWS's command line without its start: `python -m tests.warm_aws SOCKET` has it imported and forks for each command.

    with serving() as folder:
        subprocess.run(["bash", "-c", "aws s3 ls"], env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})

Each start imports for half a second what a command then needs for a tenth of one. `aws` in `folder` hands its words, its
environment, its working directory and its three open files to the server, whose child has them before it reads any
configuration, and ends with the status that the child sends back: 255 if that ends without one.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from local.leash import leashed

ROOT = Path(__file__).parents[1]
SERVICES = ("cloudformation", "dynamodb", "s3", "secretsmanager")
"""Their descriptions are read before the first command."""
DATA_PATH = "AWS_DATA_PATH"
"""The command line sets this variable when it is imported."""
START_S = 300
GRACE_S = 3
CLIENT = """\
#!{python} -IS
import json, os, socket, sys
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(request).to_bytes(4)], [0, 1, 2])
    server.sendall(request)
    sys.exit(int(server.recv(3) or b"255"))
"""


@contextmanager
def serving() -> Iterator[Path]:
    """The folder of an `aws` that works for as long as the context lasts."""
    with TemporaryDirectory(prefix="aws-") as name:
        folder, address = Path(name), str(Path(name) / "socket")
        client = folder / "aws"
        client.write_text(CLIENT.format(python=sys.executable, address=address))
        client.chmod(0o700)
        command = leashed(GRACE_S, sys.executable, "-m", "tests.warm_aws", address)
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as server:
            try:
                _await(Path(address), server)
                yield folder
            finally:
                server.communicate()  # closes standard input, which ends the leash


def _await(address: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while not address.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the server of AWS's command line did not start")
        time.sleep(0.05)


def serve(address: str) -> None:
    """Without end."""
    _import()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with socket.socket(socket.AF_UNIX) as listening:
        beginning = f"{address}.beginning"
        listening.bind(beginning)
        listening.listen()
        Path(beginning).rename(address)
        while True:
            connection, _ = listening.accept()
            with connection:
                if not os.fork():
                    _run(connection)


def _import() -> None:
    """Everything that the commands have in common, but nothing that goes by the environment."""
    from awscli.clidriver import create_clidriver  # noqa: PLC0415 - the client's side goes without

    from tests import botocore_models  # noqa: PLC0415 - as above

    botocore_models.install()
    driver = create_clidriver()
    for service in SERVICES:
        driver.session.get_service_model(service)


def _run(connection: socket.socket) -> None:
    """One command, in a process of its own, which ends here."""
    status = 255
    try:
        status = _status(connection)
    except BaseException:  # noqa: BLE001 - the client is answered whatever happens
        traceback.print_exc()
    finally:
        for file in (sys.stdout, sys.stderr):
            file.flush()
        connection.sendall(str(status).encode())
        os._exit(0)


def _status(connection: socket.socket) -> int:
    from awscli import clidriver  # noqa: PLC0415 - as above

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, *_ = socket.recv_fds(connection, 4, 3)
    words, folder, environment = json.loads(_received(connection, int.from_bytes(size)))
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    own = os.environ[DATA_PATH]
    os.environ.clear()
    os.environ.update({**environment, DATA_PATH: own})
    sys.argv = ["aws", *words]
    try:
        return int(clidriver.main() or 0)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1


def _received(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += connection.recv(size - len(received))
    return received


if __name__ == "__main__":
    serve(sys.argv[1])
