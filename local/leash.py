"""Runs a program that must not outlive whoever started it: `python -m local.leash SECONDS PROGRAM …`.

Standard input is the leash. When its other end closes, by intent or because the parent died in any way at all, the
program and everything it has started get so many seconds to stop and are then killed.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


def leashed(grace: float, *command: str | Path) -> list[str | Path]:
    """The command that ends with this program; `grace` is in seconds, counted from SIGTERM."""
    return [sys.executable, "-m", "local.leash", str(grace), *command]


def main(grace: float, command: list[str]) -> int:
    with contextlib.suppress(PermissionError):
        os.setsid()  # out of reach of what hits the parent's whole group, such as Ctrl-C
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=_stop_when_let_go, args=(program, grace), daemon=True).start()
    status = program.wait()
    _signal(program, signal.SIGKILL)
    return status


def _stop_when_let_go(program: subprocess.Popen[bytes], grace: float) -> None:
    sys.stdin.buffer.read()
    _signal(program, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        program.wait(grace)
    _signal(program, signal.SIGKILL)


def _signal(program: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the whole process group, whose leader the program is; its members may outlive it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(program.pid, number)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
