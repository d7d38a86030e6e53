"""How little `explain` imports, since that takes as long as its answer; and the arrays that it makes for that reason."""

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lake.lookup import array_of
from pipeline.period import DAY_MS, HOUR_MS, instant_text
from tests.pipeline.small_lake import CLIENT, OTHER, PHONE, START, TABLET, SmallLake, Way, ruled, subscribed

HEAVY = ("pyspark", "pandas", "boto3", "jinja2", "pygal")
CODE = (
    "import sys; from pipeline.__main__ import main; status = main(sys.argv[1:]); "
    f"print(sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr); sys.exit(status)"
)


@pytest.mark.parametrize("asked", ["receipt", "envelope", "subscription", "client"])
def test_of_a_lake_on_a_disk_it_answers_without_anything_heavy(
    asked: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lake, way = SmallLake(tmp_path_factory.mktemp("lake")), Way()
    lake.commit(subscribed(), ruled(way.key))
    lake.commit(*way.delivered())
    lake.stream(Way(START + 1, 2).observed())
    lake.commit(subscribed(TABLET, OTHER, at=START + HOUR_MS))
    ids = {
        "receipt": [str(way.receipt)], "envelope": [way.envelope_id.hex()], "subscription": [str(PHONE)],
        "client": ["--client", CLIENT.hex()],
    }  # fmt: skip
    words = ["explain", *ids[asked], "--lake", lake.root, "--to", instant_text(START + DAY_MS)]
    ran = subprocess.run([sys.executable, "-c", CODE, *words], check=True, capture_output=True, text=True)
    assert ran.stderr == "[]\n"
    assert "1 right" in ran.stdout


UNDER_WAY = """
import sys, time
from pipeline import __main__, direct
from pipeline.lake.pending import PendingLines

def answer(wanted):
    lines = PendingLines(".")
    print(lines._folder, flush=True)
    time.sleep(60)

direct.run, sys.argv = answer, ["clarion-pipeline", "explain", "--client", "00" * 32, "--lake", "."]
sys.exit(__main__.main())
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_no_lines_in_temporary_files(number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-c", UNDER_WAY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout
        folder = Path(running.stdout.readline().strip())
        assert folder.is_dir()
        running.send_signal(number)
        assert running.wait() == code
    assert not folder.exists()


@given(st.lists(st.text()))
def test_an_array_of_texts_is_as_pyarrow_makes_it(values: list[str]) -> None:
    encodable = [value.encode(errors="replace").decode() for value in values]
    found = array_of(encodable, pa.string())
    found.validate(full=True)
    assert found == pa.array(encodable, pa.string())


@given(st.sets(st.binary()))
def test_an_array_of_bytes_is_as_pyarrow_makes_it(values: set[bytes]) -> None:
    found = array_of(values, pa.binary())
    found.validate(full=True)
    assert found == pa.array(list(values), pa.binary())
