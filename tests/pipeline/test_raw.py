"""The stream's files: which have arrived, and their lines as they are read."""

import gzip
import os
import subprocess
import sys
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lake.commits import LakeView
from pipeline.lake.lookup import Lookup
from pipeline.lake.raw import (
    LINES,
    MAX_LINE_BYTES,
    arrival_hour,
    arrived_files,
    is_cut,
    line_batches,
    lines_of,
    misplaced,
)
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_start
from pipeline.reconciliation.due_days import due_days

HOUR = "2026-11-30/23"
START = hour_start(HOUR)
PATH = "events/day=2026-11-30/hour=23/file"
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))


def put(root: Path, path: str, content: bytes = b"1\n") -> Path:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def read(root: Path, *paths: str) -> list[dict[str, object]]:
    asked = pa.RecordBatch.from_pydict({"path": [str(root / path) for path in paths]})
    return [row for batch in line_batches([asked], str(root)) for row in batch.to_pylist()]


def about(content: bytes, lines: int, path: str = PATH) -> dict[str, object]:
    """The row at the end of a file."""
    digest = sha256(content).hexdigest()
    return {"home": HOUR, "value": None, "path": path, "lines": lines, "bytes": len(content), "digest": digest}


@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_a_files_lines_are_followed_by_what_is_known_of_it(tmp_path: Path, name: str) -> None:
    plain = b'{"a":1}\n{"b":2}\n'
    content = gzip.compress(plain) if name.endswith(".gz") else plain
    path = PATH.replace("file", name)
    put(tmp_path, path, content)
    *lines, last = read(tmp_path, path)
    assert [line["value"] for line in lines] == ['{"a":1}', '{"b":2}']
    assert all(line["home"] == HOUR and line["path"] is None for line in lines)
    assert last == about(content, 2, path)


def test_empty_lines_are_none_and_the_last_needs_no_end(tmp_path: Path) -> None:
    content = b"\n  \n1\n\n2"
    put(tmp_path, PATH, content)
    assert [row["value"] for row in read(tmp_path, PATH)] == ["1", "2", None]
    assert read(tmp_path, PATH)[-1] == about(content, 2)


def test_of_an_empty_file_it_is_known_that_it_is_empty(tmp_path: Path) -> None:
    put(tmp_path, PATH, b"")
    assert read(tmp_path, PATH) == [about(b"", 0)]


def test_what_is_no_text_is_replaced_and_keeps_its_line(tmp_path: Path) -> None:
    put(tmp_path, PATH, b'{"a":"\xff"}\n2\n')
    assert [row["value"] for row in read(tmp_path, PATH)] == ['{"a":"\ufffd"}', "2", None]


@given(st.lists(TEXT.filter(str.strip).map(str.strip), max_size=9))
def test_each_line_is_read_once_in_order(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    root = tmp_path_factory.mktemp("lake")
    put(root, PATH, "".join(f"{text}\n" for text in texts).encode())
    kept = [text.encode().strip().decode() for text in texts]
    assert [row["value"] for row in read(root, PATH)] == [*filter(None, kept), None]


def test_a_long_file_comes_in_several_batches(tmp_path: Path) -> None:
    put(tmp_path, PATH, b"".join(b"%07d" % number * 1_000 + b"\n" for number in range(1_500)))
    asked = pa.RecordBatch.from_pydict({"path": [str(tmp_path / PATH)]})
    batches = list(line_batches([asked], str(tmp_path)))
    assert len(batches) > 2
    assert all(batch.schema == LINES for batch in batches)
    assert sum(batch.num_rows for batch in batches) == 1_501
    assert batches[-1].to_pylist()[0]["lines"] == 1_500


@pytest.mark.parametrize("damage", [lambda content: content[:-9], lambda content: content[:20] + b"\0" + content[21:]])
def test_of_a_damaged_file_no_line_is_taken_and_others_are_read_all_the_same(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    path = f"{PATH}.gz"
    put(tmp_path, path, damage(gzip.compress(b"1\n" * 999 + bytes(range(33, 99)) * 99)))
    put(tmp_path, PATH, b"2\n")
    damaged = {"home": HOUR, "value": None, "path": path, "lines": None, "bytes": None, "digest": None}
    first, *others = read(tmp_path, path, PATH)
    assert first == damaged
    assert [row["value"] for row in others] == ["2", None]


def test_of_a_line_that_is_too_long_the_beginning_is_read_and_nothing_else_is_kept(tmp_path: Path) -> None:
    put(tmp_path, PATH, gzip.compress(b"1\n" + b"x" * (5 * MAX_LINE_BYTES // 2) + b"\n2\n"))
    values = [row["value"] for row in read(tmp_path, PATH)]
    assert values == ["1", "x" * MAX_LINE_BYTES, "2", None]


@pytest.mark.parametrize("length", [MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1])
def test_a_line_of_about_the_limit_is_one_line(length: int) -> None:
    lines = list(lines_of(BytesIO(b"x" * length + b"\n2\n")))
    assert (len(lines), lines[1]) == (2, b"2\n")
    assert is_cut(lines[0]) == (length >= MAX_LINE_BYTES)


def test_a_file_that_says_it_is_compressed_and_is_not_is_read_as_it_lies_there(tmp_path: Path) -> None:
    put(tmp_path, f"{PATH}.gz", b"no gzip\n")
    assert [row["value"] for row in read(tmp_path, f"{PATH}.gz")] == ["no gzip", None]


def test_a_file_that_is_gone_ends_the_job(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path, PATH)


def test_several_files_are_read_one_after_another(tmp_path: Path) -> None:
    put(tmp_path, f"{PATH}-1", b"1\n")
    put(tmp_path, f"{PATH}-2", b"2\n")
    assert [row["value"] for row in read(tmp_path, f"{PATH}-1", f"{PATH}-2")] == ["1", None, "2", None]


def test_files_are_found_by_their_hours_across_the_end_of_a_month(tmp_path: Path) -> None:
    next_hour = "events/day=2026-12-01/hour=00/file"
    for path in (
        PATH,
        f"{PATH}-2",
        next_hour,
        "events/day=2026-12-01/hour=01/file",
        "events/day=2026-11-29/hour=23/file",
    ):
        put(tmp_path, path)
    found = arrived_files(str(tmp_path), Period(START, START + 2 * HOUR_MS))
    assert found == {HOUR: [PATH, f"{PATH}-2"], "2026-12-01/00": [next_hour]}
    assert arrived_files(str(tmp_path), Period(START + DAY_MS, START + 2 * DAY_MS)) == {}


def test_other_folders_and_hidden_files_are_none_of_the_streams(tmp_path: Path) -> None:
    for path in (f"{PATH[:-4]}.file.crc", f"{PATH[:-4]}_SUCCESS", PATH.replace("events", "errors"), "events/notes.txt"):
        put(tmp_path, path)
    assert arrived_files(str(tmp_path), Period(START, START + HOUR_MS)) == {}
    assert arrived_files(str(tmp_path / "nowhere"), Period(START, START + HOUR_MS)) == {}


def test_the_hour_of_a_file_is_in_its_path() -> None:
    assert arrival_hour(PATH) == HOUR
    assert arrival_hour("events/day=2027-01-01/hour=00/deeper/file.gz") == "2027-01-01/00"


def test_of_a_compressed_file_that_is_empty_something_is_missing(tmp_path: Path) -> None:
    put(tmp_path, f"{PATH}.gz", b"")
    [row] = read(tmp_path, f"{PATH}.gz")
    assert (row["path"], row["digest"]) == (f"{PATH}.gz", None)


def bomb(line: bytes) -> bytes:
    """About a megabyte or two that unpack to 1 GiB of the same line."""
    packed, some = BytesIO(), line * ((1 << 20) // len(line))
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6) as stream:
        for _ in range(1 << 10):
            stream.write(some)
    return packed.getvalue()


READ_A_BOMB = """
import resource, sys
import pyarrow as pa
from clarion.events import PushTried
from pipeline.lake.lookup import Lookup
from pipeline.period import EVER
from pipeline.lake.raw import line_batches
root, path = sys.argv[1:]
def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = most()
[batch] = line_batches([pa.RecordBatch.from_pydict({"path": [f"{root}/{path}"]})], root)
[row] = batch.to_pylist()
assert (row["path"], row["digest"]) == (path, None), row
lookup = Lookup(root)
assert lookup.find(PushTried, "receipt", {b"none"}, EVER) == []
assert lookup.damaged == [path], lookup
print(most() - before)
"""


@pytest.mark.parametrize(
    "line", [b"\0" * 1024, b'{"event":"push"}\n', b"\n"], ids=["one long line", "lines", "empty lines"]
)
def test_a_gzip_bomb_is_damaged_and_no_more_of_it_is_ever_in_memory_than_of_any_file(
    tmp_path: Path, line: bytes
) -> None:
    path = f"{PATH}.gz"
    content = bomb(line)
    assert len(content) < 4 << 20
    put(tmp_path, path, content)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    given = [sys.executable, "-c", READ_A_BOMB, str(tmp_path), path]
    done = subprocess.run(given, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100


def test_what_somebody_has_put_beside_the_streams_files_is_named_and_left_out(tmp_path: Path) -> None:
    day = PATH.rpartition("/hour=")[0]
    for path in (PATH, f"{day}/notes.txt", f"{day}.bak/hour=16/file.gz", f"{day}/hour=16.bak/file.gz"):
        put(tmp_path, path)
    asked = str(tmp_path), Period(START, START + HOUR_MS)
    assert arrived_files(*asked) == {HOUR: [PATH]}
    assert misplaced(*asked) == [f"{day}.bak", f"{day}/hour=16.bak/file.gz", f"{day}/notes.txt"]


def test_what_has_the_name_of_no_day_or_hour_that_there_is_belongs_to_none(tmp_path: Path) -> None:
    day = PATH.rpartition("/hour=")[0]
    strays = [
        "events/.hidden", "events/notes.txt", "events/day=2026-11-31/hour=00/file.gz", "events/day=2026-00-00/hour=00/file",
        f"{day}/hour=24/file.gz", f"{day}/hour=99/file.gz", f"{day}.bak/hour=23/file.gz",
    ]  # fmt: skip
    for path in (PATH, *strays):
        put(tmp_path, path)
    month = Period(START - 29 * DAY_MS, START + DAY_MS)
    assert arrived_files(str(tmp_path), month) == {HOUR: [PATH]}
    assert misplaced(str(tmp_path), month) == [
        "events/notes.txt", "events/day=2026-00-00", "events/day=2026-11-30.bak", "events/day=2026-11-31", *strays[4:6],
    ]  # fmt: skip
    assert Lookup(str(tmp_path)).coverage.pending(month) == {HOUR: [PATH]}
    assert due_days(LakeView(str(tmp_path)), Period(START + HOUR_MS, START + HOUR_MS + DAY_MS)).overdue == []
