import subprocess
import sys

from bench.processors import PARTS, REST, ProcessorTime

BUSY_S = 0.2
COMPUTE = f"import time\nwhile time.process_time() < {BUSY_S}: pass\nprint(flush=True)\ninput()"


def test_what_a_part_of_the_stack_computes_is_counted_as_that_parts() -> None:
    before = ProcessorTime.begin()
    command = [sys.executable, "-c", COMPUTE, "recorded_emulator.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as emulator:
        assert emulator.stdout
        emulator.stdout.readline()
        taken = before.taken()
        emulator.communicate("\n")
    assert taken.keys() == {*PARTS.values(), REST}
    assert taken["the emulator"] >= 0.9 * BUSY_S
    assert taken["ingest"] == taken["functions"] == 0
