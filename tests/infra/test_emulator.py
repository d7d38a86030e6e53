"""Starts the real emulator; tests/system deploys into it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from local.emulator import MINISTACK, Emulator

pytestmark = pytest.mark.system
PATIENCE_S = 60
"""What a busy machine may take."""
HOLDER = """
import signal
from local.emulator import started
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
with started("test-leash") as emulator:
    print(emulator.port, flush=True)
    signal.pause()
"""
UNPACK = """
import os, sys, tempfile, zipfile
from pathlib import Path
from recorded_emulator import UnpackedOnce
folder = Path(tempfile.tempdir)
for layer in "first", "second":
    with zipfile.ZipFile(folder / f"{layer}.zip", "w") as archive:
        archive.writestr("python/package/module.py", layer)
for name, layer in ("a", "first"), ("b", "first"), ("c", "second"):
    (folder / name).mkdir()
    with UnpackedOnce(folder / f"{layer}.zip") as archive:
        archive.extractall(folder / name)
modules = [folder / name / "python" / "package" / "module.py" for name in "abc"]
print([module.read_text() for module in modules], *(os.path.samefile(modules[0], other) for other in modules[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_emulator_dies_with_the_program_that_started_it(number: signal.Signals) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, cwd=root, stdout=PIPE, stderr=DEVNULL, text=True, start_new_session=True) as holder:
        assert holder.stdout
        emulator = Emulator(port=int(holder.stdout.readline()), folder=root)
        assert emulator.answers()
        os.killpg(holder.pid, number)
    assert holder.returncode == -number
    deadline = time.monotonic() + PATIENCE_S
    while emulator.answers():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_functions_with_the_same_layer_share_its_files(tmp_path: Path) -> None:
    program = f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}" + UNPACK
    python, script = MINISTACK
    unpacked = subprocess.run([python, "-c", program], cwd=script.parent, capture_output=True, text=True, check=False)
    assert unpacked.stdout == "['first', 'first', 'second'] True False\n", unpacked.stderr
