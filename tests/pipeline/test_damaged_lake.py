"""What of a lake can't be read ends the job that needs it: it is never taken for what isn't there."""

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import compressobj

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from clarion.decisions import PushDecision
from clarion.deliveries import DeliveryRecord, pack
from pipeline.__main__ import main
from pipeline.compaction.completeness import incomplete_hours
from pipeline.compaction.vacuum import KEPT_MS, vacuum
from pipeline.erase.run import erase
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.commits import (
    DamagedRecord,
    LakeView,
    Manifest,
    commit,
    data_folder,
    manifest_path,
    read_manifest,
    update,
)
from pipeline.lake.event_lake import differences_name
from pipeline.lake.lookup import Lookup
from pipeline.lake.parquet import write_parquet
from pipeline.lake.small_tables import read_rows, read_tables, write_tables
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path, instant_text
from pipeline.reconciliation.due_days import is_judged
from tests.pipeline.small_lake import CLIENT, OTHER, PHONE, START, SmallLake, Way, data_paths, ruled, subscribed

HOUR = hour_path(START)
PERIOD = Period(START, START + HOUR_MS)
WAY = Way()


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    made = SmallLake(tmp_path / "lake")
    made.commit(subscribed(), ruled(WAY.key))
    made.commit(*WAY.delivered())
    return made


def place(lake: SmallLake, hour: str = HOUR) -> Path:
    return Path(lake.root) / manifest_path(hour)


def cut(text: str) -> str:
    return text[: len(text) // 2]


def of_another_form(text: str) -> str:
    return json.dumps({"hour": json.loads(text)["hour"]})


def a_list(_: str) -> str:
    return "[]"


def nothing(_: str) -> str:
    return ""


def of_another_hour(text: str) -> str:
    return json.dumps({**json.loads(text), "hour": hour_path(START + HOUR_MS)})


def with_a_byte_that_is_no_text(text: str) -> str:
    """In the name of a kind, which would be passed over."""
    return text.replace('"push"', '"pu\udcffh"')


def with_a_bit_flipped(whole: bytes, at: int) -> bytes:
    content = bytearray(whole)
    content[at // 8] ^= 1 << at % 8
    return bytes(content)


DAMAGES = [cut, of_another_form, a_list, nothing, of_another_hour, with_a_byte_that_is_no_text]


@pytest.fixture(params=DAMAGES, ids=lambda damage: damage.__name__)
def damaged(request: pytest.FixtureRequest, lake: SmallLake) -> SmallLake:
    """The manifest of an hour that was complete."""
    damage: Callable[[str], str] = request.param
    place(lake).write_text(damage(place(lake).read_text()), errors="surrogateescape")
    return lake


ASKING: dict[str, Callable[[str], Any]] = {
    "the manifest": lambda root: read_manifest(root, HOUR),
    "a view": lambda root: LakeView(root).manifests(PERIOD),
    "its files": lambda root: data_paths(root, "push", PERIOD),
    "what is incomplete": lambda root: incomplete_hours(LakeView(root), PERIOD, START + DAY_MS),
    "an explanation": lambda root: explain(Lookup(root), ExplainRequest(WAY.receipt, PERIOD)),
    "an erasure": lambda root: erase(root, CLIENT, dry_run=False, on_progress=lambda _: None),
    "what to remove": lambda root: vacuum(root, ["push"], _written(root) + KEPT_MS + 1),
    "a commit": lambda root: commit(root, Manifest(HOUR, "new"), None),
    "an update": lambda root: update(root, HOUR, lambda known: known),
}


def _written(root: str) -> int:
    return (Path(root) / manifest_path(HOUR)).stat().st_mtime_ns // 1_000_000


@pytest.mark.parametrize("asked", ASKING)
def test_a_manifest_that_cannot_be_read_is_named_and_ends_whatever_needs_it(damaged: SmallLake, asked: str) -> None:
    before = {path: content for path, content in damaged.texts() if not path.endswith(".parquet")}
    with pytest.raises(DamagedRecord, match=f"^{manifest_path(HOUR)} can't be read: "):
        ASKING[asked](damaged.root)
    assert {path: content for path, content in damaged.texts() if not path.endswith(".parquet")} == before


def test_an_hour_whose_manifest_was_moved_aside_has_none(damaged: SmallLake) -> None:
    place(damaged).rename(place(damaged).with_name(f"{place(damaged).name}.damaged"))
    assert LakeView(damaged.root).manifests(PERIOD) == []
    assert erase(damaged.root, CLIENT, dry_run=True, on_progress=lambda _: None).left == ()


def test_the_hours_of_another_day_are_read_all_the_same(damaged: SmallLake) -> None:
    other = Period(START - 2 * DAY_MS, START - DAY_MS)
    assert LakeView(damaged.root).manifests(other) == []
    assert incomplete_hours(LakeView(damaged.root), Period(other.start, other.start + 1), START)


def test_what_a_reconciliation_left_is_not_taken_for_none_if_it_is_damaged(lake: SmallLake) -> None:
    """The day would be judged anew, and the page say that nobody has compared."""
    name = differences_name(PERIOD)
    update(lake.root, name, lambda known: known)
    place(lake, name).write_text("{")
    with pytest.raises(DamagedRecord):
        is_judged(LakeView(lake.root), PERIOD)


def test_a_data_file_that_is_no_parquet_ends_an_explanation(lake: SmallLake) -> None:
    [path] = data_paths(lake.root, "push", PERIOD)
    Path(path).write_bytes(b"PAR1 and nothing more")
    with pytest.raises(pa.ArrowInvalid):
        explain(Lookup(lake.root), ExplainRequest(WAY.envelope_id, PERIOD))


def test_a_data_file_that_is_gone_ends_an_explanation(lake: SmallLake) -> None:
    [path] = data_paths(lake.root, "envelope", PERIOD)
    Path(path).unlink()
    with pytest.raises(FileNotFoundError):
        explain(Lookup(lake.root), ExplainRequest(WAY.receipt, PERIOD))


def test_an_erasure_names_a_file_that_it_cannot_read_and_removes_all_else(lake: SmallLake) -> None:
    """Its journal stays for the next run, which ends the same way until the file is gone or mended."""
    [path] = data_paths(lake.root, "push", PERIOD)
    Path(path).write_bytes(b"PAR1 and nothing more")
    erased = erase(lake.root, CLIENT, dry_run=False, on_progress=lambda _: None)
    assert [each.partition(": ")[0] for each in erased.left] == [str(Path(path).relative_to(lake.root))]
    assert (erased.removed["notification"], erased.removed["rules"]) == (1, 1)
    assert len(list((Path(lake.root) / "erasures").iterdir())) == 1
    assert main(["erase", CLIENT.hex(), "--lake", lake.root]) == 1


def test_a_journal_that_cannot_be_read_ends_every_erasure(lake: SmallLake) -> None:
    """It may name subscriptions of this client that nothing else knows any more."""
    journal = Path(lake.root) / "erasures" / "one.json"
    journal.parent.mkdir()
    journal.write_text('{"client": "')
    with pytest.raises(json.JSONDecodeError):
        erase(lake.root, CLIENT, dry_run=False, on_progress=lambda _: None)
    assert journal.exists()


def test_a_manifest_with_a_flipped_bit_is_refused_or_read_as_it_was(lake: SmallLake) -> None:
    found, whole = read_manifest(lake.root, HOUR), place(lake).read_bytes()
    for at in range(0, len(whole) * 8, 7):
        place(lake).write_bytes(with_a_bit_flipped(whole, at))
        with suppress(DamagedRecord):
            assert read_manifest(lake.root, HOUR) == found


@pytest.mark.parametrize("name", ["counted", "push"])
def test_a_manifest_of_which_a_name_was_changed_is_no_manifest(lake: SmallLake, name: str) -> None:
    """An hour would have no count, or not the lines of a kind."""
    text = place(lake).read_text()
    assert f'"{name}"' in text
    place(lake).write_text(text.replace(f'"{name}"', f'"{name[:-1]}{chr(ord(name[-1]) ^ 1)}"'))
    with pytest.raises(DamagedRecord, match="it is not as it was written"):
        read_manifest(lake.root, HOUR)


def test_a_manifest_of_an_earlier_release_that_lacks_its_count_is_no_manifest(lake: SmallLake) -> None:
    values = json.loads(place(lake).read_text())
    del values["counted"]
    values.pop("digest", None)
    place(lake).write_text(json.dumps(values))
    with pytest.raises(DamagedRecord, match="counted"):
        read_manifest(lake.root, HOUR)


def test_a_small_table_of_which_a_bit_was_changed_is_not_read(tmp_path: Path) -> None:
    table = pa.table({"hour": [HOUR], "problem": ["it is not sealed"]})
    kinds = write_tables(str(tmp_path), "reports/of", {"hours": table})
    path = tmp_path / kinds["hours"][0].path
    whole = path.read_bytes()
    for at in range(0, len(whole) * 8, 37):
        path.write_bytes(with_a_bit_flipped(whole, at))
        with pytest.raises(DamagedRecord, match=rf"^{kinds['hours'][0].path} is not as it was written$"):
            read_tables(str(tmp_path), Manifest("reports/of", "", kinds=kinds), ["hours"])


def test_limits_in_a_file_that_was_changed_are_not_judged_by(tmp_path: Path) -> None:
    table = pa.table({"count": [30]})
    [file] = write_tables(str(tmp_path), "limits", {"limits": table})["limits"]
    assert read_rows(str(tmp_path), [file], table.schema) == [{"count": 30}]
    path = tmp_path / file.path
    path.write_bytes(with_a_bit_flipped(path.read_bytes(), 100))
    with pytest.raises(DamagedRecord):
        read_rows(str(tmp_path), [file], table.schema)


@pytest.mark.parametrize("words", [["explain", str(UUID(int=5)), "--to", "2026-12-01"], ["erase", CLIENT.hex()]])
def test_the_command_says_in_a_line_where_the_lake_is_damaged(
    words: list[str], damaged: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--lake", damaged.root]) == 4
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"» the lake can't be read or written: {manifest_path(HOUR)}")


def test_the_command_says_in_a_line_which_data_file_is_gone(
    lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    [path] = data_paths(lake.root, "envelope", PERIOD)
    Path(path).unlink()
    assert main(["explain", WAY.envelope_id.hex(), "--lake", lake.root, "--to", instant_text(PERIOD.end)]) == 4
    [line] = capsys.readouterr().err.splitlines()
    assert Path(path).name in line


def test_what_is_not_found_beside_a_damaged_file_may_be_in_it(
    lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    place_of = Path(lake.root) / lake.stream(*Way(START, 2).delivered())
    place_of.write_bytes(place_of.read_bytes()[:-9])
    assert main(["explain", str(UUID(int=5)), "--lake", lake.root, "--to", "2026-12-01"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("What can be read of the lake has nothing of it.")
    assert f"{place_of.relative_to(lake.root)} is damaged" in said


def test_an_erasure_names_files_of_the_stream_that_were_cut_or_are_bombs_and_removes_all_else(lake: SmallLake) -> None:
    cut_file = lake.stream(*Way(START, 2).delivered())
    place_of = Path(lake.root) / cut_file
    place_of.write_bytes(place_of.read_bytes()[:-9])
    bomb = Path(lake.root) / "reports" / "old" / "page.html"
    bomb.parent.mkdir(parents=True)
    packed = compressobj(wbits=31)
    bomb.write_bytes(b"".join(packed.compress(bytes(1 << 20)) for _ in range(1 << 10)) + packed.flush())
    odd = Path(lake.root) / "deliveries" / "odd"
    odd.parent.mkdir()
    odd.write_bytes(b"x" + pack([DeliveryRecord(PHONE, START, PushDecision.DELIVERED)]))
    erased = erase(lake.root, CLIENT, dry_run=False, on_progress=lambda _: None)
    assert [each.partition(": ")[0] for each in erased.left] == ["deliveries/odd", cut_file, "reports/old/page.html"]
    assert "unpacks to more than" in erased.left[-1]
    assert (erased.removed["notification"], erased.removed["push"]) == (1, 1)
    assert main(["erase", CLIENT.hex(), "--lake", lake.root]) == 1


DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("line", "goes"),
    [
        (f'{{"event":[],"client_id":"{CLIENT.hex()}"}}', True),
        (f'{{"event":"push","client_id":["{CLIENT.hex()}"]}}', True),
        (f'{{"event":"push","client_id":"{CLIENT.hex()}","deep":{DEEP}', True),
        (
            f'{{"event":"notification","network":"unknown","client_id":"{OTHER.hex()}","sender":"{CLIENT.hex()}"}}',
            False,
        ),
    ],
    ids=["a list for a word", "a list for an id", "too deep", "another one's, as its sender"],
)
def test_of_lines_that_no_job_can_read_the_clients_go_and_the_others_stay(
    lake: SmallLake, line: str, *, goes: bool
) -> None:
    stream = Path(lake.root) / lake.stream(subscribed(), at=START + HOUR_MS)
    stream.write_bytes(gzip.compress(f"{line}\n".encode()))
    table = pa.RecordBatch.from_pylist([{"value": line}])
    hour = hour_path(START + 2 * HOUR_MS)
    file = write_parquet(lake.root, data_folder("unreadable", hour, "made"), [table])
    update(lake.root, hour, lambda known: replace(known, kinds={"unreadable": (file,)}))
    erased = erase(lake.root, CLIENT, dry_run=False, on_progress=lambda _: None)
    assert erased.left == ()
    assert gzip.decompress(stream.read_bytes()) == (b"" if goes else f"{line}\n".encode())
    after = read_manifest(lake.root, hour)
    assert after
    assert after.lines == (0 if goes else 1)


def test_a_file_that_nobody_has_committed_yet_under_a_name_loses_the_clients_rows_and_keeps_the_others(
    lake: SmallLake,
) -> None:
    """Whoever wrote it may be about to commit it."""
    rows = pa.RecordBatch.from_pylist([{"client_id": CLIENT}, {"client_id": OTHER}])
    file = write_parquet(lake.root, data_folder("snapshots", "snapshots/subscription/day=2026-09-20", "made"), [rows])
    erase(lake.root, CLIENT, dry_run=False, on_progress=lambda _: None)
    assert pq.read_table(Path(lake.root) / file.path).to_pylist() == [{"client_id": OTHER}]
