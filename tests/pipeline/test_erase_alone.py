"""What `erase` does where there is little to do, where somebody else commits, and what counts as a client's."""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.__main__ import main
from pipeline.erase.lease import AnotherErasure, ErasureLease
from pipeline.erase.run import Erased, ErasureJournal, erase
from pipeline.erase.traces import Traces
from pipeline.lake.commits import LakeView, manifest_path, read_manifest
from pipeline.lake.files import listed, read_file
from pipeline.lake.plans import LEASE_MS
from pipeline.period import DAY_MS, EVER, HOUR_MS, Period, hour_path, hour_start
from pipeline.report.report_files import page_path, read_tables, report_name, write_page, write_tables
from tests.pipeline.small_lake import CLIENT, OTHER, PHONE, START, TABLET, SmallLake, Way, ruled, subscribed
from tests.pipeline.test_commits_s3 import BUCKET, ROOT, RecordedS3, s3, server  # noqa: F401 - fixtures

DAY = Period(START, START + DAY_MS)
NOBODY = b"n" * 32
TRACES = Traces(CLIENT, frozenset([PHONE]))
WAY = Way()


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    """Two clients that got the same statement."""
    made = SmallLake(tmp_path / "lake")
    fill(made)
    return made


def fill(lake: SmallLake) -> None:
    lake.commit(subscribed(), ruled(WAY.key), subscribed(TABLET, OTHER), ruled(WAY.key, TABLET))
    lake.commit(*WAY.delivered(), WAY.notification(to=TABLET, client=OTHER), WAY.push(to=TABLET))


def run(lake: SmallLake, client: bytes = CLIENT, *, dry_run: bool = False) -> Erased:
    return erase(lake.root, client, dry_run=dry_run, on_progress=lambda _: None)


def contents(lake: SmallLake) -> dict[str, bytes]:
    return {path: (Path(lake.root) / path).read_bytes() for path in listed(lake.root, "")}


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_client_that_appears_nowhere_leaves_every_file_as_it_is(lake: SmallLake, *, dry_run: bool) -> None:
    before = contents(lake)
    assert run(lake, NOBODY, dry_run=dry_run) == Erased({}, 0)
    assert contents(lake) == before


def test_of_two_erasures_at_once_the_second_is_refused_and_brings_nobody_back(
    lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = list[int]()

    def meanwhile(_: str) -> None:
        ended.append(main(["erase", OTHER.hex(), "--lake", lake.root]))

    assert erase(lake.root, CLIENT, dry_run=False, on_progress=meanwhile).removed["events"] > 0
    assert set(ended) == {4}
    assert "another erasure is at work" in capsys.readouterr().err
    assert run(lake, OTHER).removed["events"] > 0
    ids = [text for who in (CLIENT, OTHER) for text in (who, who.hex().encode())]
    assert [path for path, content in lake.texts() if any(each in content for each in ids)] == []
    assert not listed(lake.root, "erasures")


def test_an_erasure_that_was_killed_keeps_others_out_until_its_lease_has_ended(lake: SmallLake) -> None:
    at = START
    killed = ErasureLease(lake.root, lambda: at)
    killed.__enter__()
    with pytest.raises(AnotherErasure), ErasureLease(lake.root, lambda: at + LEASE_MS - 1):
        pass
    with ErasureLease(lake.root, lambda: at + LEASE_MS):
        at += LEASE_MS
        # It was held up only, and would write now.
        with pytest.raises(AnotherErasure, match="run it again"):
            killed.renew()
        killed.__exit__(None, None, None)
        assert listed(lake.root, "erasures")
    assert not listed(lake.root, "erasures")


def write(lake: SmallLake, path: str, content: bytes) -> None:
    target = Path(lake.root) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


@pytest.fixture
def uncommitted(lake: SmallLake) -> SmallLake:
    """With what no manifest names: lines that are not compacted, readable or not, a failed record, a page, a mark."""
    lake.stream(subscribed(), ruled(WAY.key), *WAY.delivered(), at=START)
    failed = json.dumps({"rawData": b64encode(WAY.push().to_line()).decode()})
    write(lake, "events/day=2026-09-21/hour=14/unreadable", f"no JSON, but {CLIENT.hex()}\n".encode())
    write(lake, "errors/failed/day=2026-09-21/hour=14/0", f"{failed}\n".encode())
    write(lake, "reports/from=1/to=2/report.html", f"<td>{CLIENT.hex()}</td>".encode())
    write(lake, "replayed/000001", b"636363")
    return lake


@pytest.mark.parametrize("part", [CLIENT[:16], CLIENT[16:]], ids=["beginning", "end"])
def test_a_part_of_an_id_is_no_client(uncommitted: SmallLake, part: bytes) -> None:
    before = contents(uncommitted)
    assert run(uncommitted, part) == Erased({}, 0)
    assert contents(uncommitted) == before


NO_CLIENTS = [b"", b"c", CLIENT[:15], b"simplex:", b"simplex:" + CLIENT[:16], CLIENT[:31], CLIENT * 2]


@pytest.mark.parametrize("short", NO_CLIENTS, ids=len)
def test_what_no_networks_id_can_be_is_refused_and_nothing_read(uncommitted: SmallLake, short: bytes) -> None:
    before = contents(uncommitted)
    with pytest.raises(ValueError, match="16 or 32 bytes"):
        run(uncommitted, short)
    with pytest.raises(SystemExit) as ended:
        main(["erase", short.hex(), "--lake", uncommitted.root])
    assert ended.value.code == 2
    assert contents(uncommitted) == before


def test_in_an_empty_lake_there_is_nothing_to_remove(tmp_path: Path) -> None:
    assert run(SmallLake(tmp_path)) == Erased({}, 0)
    assert not listed(str(tmp_path), "")


def test_a_client_is_removed_from_both_sides_of_midnight_and_of_a_month(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "lake")
    midnight = hour_start("2026-12-01/00")
    ways = [Way(midnight - 1_000, 1), Way(midnight + 1_000, 2), Way(midnight + 31 * DAY_MS, 3)]
    lake.commit(subscribed(), ruled(WAY.key))
    for way in ways:
        lake.commit(*way.delivered(), at=way.began)
    assert run(lake).removed == {"events": 8, "notification": 3, "push": 3, "rules": 1, "subscription": 1}
    assert [(found.hour, sorted(found.kinds)) for found in LakeView(lake.root).manifests(EVER) if found.lines] == [
        (hour_path(way.began), ["envelope", "notification", "observed", "push"]) for way in ways
    ]
    assert all(found.lines in {0, 2} for found in LakeView(lake.root).manifests(EVER))


def test_all_clients_can_be_removed_one_after_another(lake: SmallLake) -> None:
    both = [run(lake, client).removed for client in (CLIENT, OTHER)]
    assert both[0] == both[1] == {"events": 4, "notification": 1, "push": 1, "rules": 1, "subscription": 1}
    left = [kind for found in LakeView(lake.root).manifests(EVER) for kind, files in found.kinds.items() if files]
    assert left == ["observed", "envelope"]


def test_a_commit_that_comes_while_an_hour_is_renewed_is_kept_and_cleaned_as_well(s3: RecordedS3) -> None:  # noqa: F811
    lake = SmallLake(ROOT)
    fill(lake)
    hour = hour_path(START)
    late = Way(START + 9, 9)

    def commit_late() -> None:
        lake.commit(late.push(), late.push(to=TABLET))

    s3.before["PUT", f"/{BUCKET}/{manifest_path(hour)}"] = commit_late
    assert run(lake).removed["push"] == 2
    assert holding(lake) == []
    after = read_manifest(ROOT, hour)
    assert after
    assert {kind: sum(each.lines for each in files) for kind, files in after.kinds.items()} == {
        "observed": 1, "envelope": 1, "notification": 1, "push": 2,
    }  # fmt: skip
    assert after.arrived == 8


def test_in_s3_a_file_of_the_stream_keeps_the_others_lines(s3: RecordedS3) -> None:  # noqa: F811
    lake = SmallLake(ROOT)
    others = WAY.notification(to=TABLET, client=OTHER), WAY.push(to=TABLET)
    path = lake.stream(*others, *WAY.delivered()[2:])
    assert run(lake).removed == {"events": 2}
    kept = gzip.decompress(read_file(ROOT, path))
    assert kept.splitlines(keepends=True) == [each.to_line() for each in others]


@pytest.mark.parametrize("number", [2, 4], ids=["after it was cleaned", "before"])
def test_of_a_file_that_another_commit_takes_in_meanwhile_each_line_is_counted_once(
    s3: RecordedS3,  # noqa: F811
    number: int,
) -> None:
    """Whether it was read before the erasure has cleaned it or after that."""
    lake, events = SmallLake(ROOT), WAY.delivered()
    path, hour = lake.stream(*events), hour_path(START)
    s3.before["PUT", f"/{BUCKET}/{manifest_path(hour)}"] = lambda: lake.compact(path, *events[:number])
    assert run(lake).left == ()
    after = read_manifest(ROOT, hour)
    assert after
    assert (after.lines, after.erased) == (2, 2)


def holding(lake: SmallLake) -> list[str]:
    """The files that have something of the client."""
    ids = (CLIENT, CLIENT.hex().encode(), str(PHONE).encode())
    return [path for path, content in lake.texts() if any(each in content for each in ids)]


FIRST_LOOK = "GET", f"/{BUCKET}/{manifest_path(hour_path(START))}"
"""When an erasure has listed what there is, and reads which of it counts."""


def test_an_hour_that_is_compacted_while_the_lake_is_looked_through_is_cleaned(s3: RecordedS3) -> None:  # noqa: F811
    lake, events = SmallLake(ROOT), Way(START + 2 * HOUR_MS, 9).delivered()
    fill(lake)
    path = lake.stream(*events)
    s3.before[FIRST_LOOK] = lambda: lake.compact(path, *events)
    assert run(lake).removed["push"] == 2
    assert holding(lake) == []


def test_what_arrives_and_is_compacted_while_the_lake_is_looked_through_is_removed(s3: RecordedS3) -> None:  # noqa: F811
    lake = SmallLake(ROOT)
    fill(lake)
    s3.before[FIRST_LOOK] = lambda: lake.commit(*Way(START + 2 * HOUR_MS, 9).delivered())
    assert run(lake).removed["push"] == 2
    assert holding(lake) == []


def test_a_report_is_cleaned_by_a_commit_and_its_page_beside_it(lake: SmallLake) -> None:
    examples = pa.table({"receipt": ["one", "two"], "subscription_id": [str(PHONE), str(TABLET)]})
    made = write_tables(lake.root, DAY, {"examples": examples, "rules": pa.table({"hour": [START], "rules": [7]})})
    write_page(lake.root, DAY, made, f"<td>{PHONE}</td><td>{TABLET}</td>")
    before = read_manifest(lake.root, report_name(DAY))
    removed = run(lake).removed
    assert (removed["examples"], removed["reports"]) == (1, 1)
    assert read_tables(lake.root, DAY) == {
        "examples": [{"receipt": "two", "subscription_id": str(TABLET)}],
        "rules": [{"hour": START, "rules": 7}],
    }
    assert (Path(lake.root) / page_path(DAY)).read_text() == f"<td>erased</td><td>{TABLET}</td>"
    assert before
    assert before.kinds["examples"][0].path not in listed(lake.root, "reports")


def test_hours_without_the_client_keep_their_commits(lake: SmallLake) -> None:
    other = Way(START + 2 * HOUR_MS, 7)
    theirs = lake.commit(other.notification(to=TABLET, client=OTHER), other.push(to=TABLET))
    run(lake)
    assert read_manifest(lake.root, theirs.hour) == theirs


def test_an_erasure_says_which_hours_it_does(lake: SmallLake) -> None:
    said: list[str] = []
    erase(lake.root, CLIENT, dry_run=True, on_progress=said.append)
    assert said == [f"     1 of 2: {hour_path(START - HOUR_MS)}", f"     2 of 2: {hour_path(START)}"]


def test_a_journal_that_names_an_hour_which_is_gone_is_finished(lake: SmallLake) -> None:
    """Its manifest has expired meanwhile: an empty commit stands for it."""
    gone = hour_path(START - 30 * DAY_MS)
    journal = Path(lake.root) / "erasures" / "one.json"
    journal.parent.mkdir()
    journal.write_text(ErasureJournal(CLIENT, frozenset([PHONE]), frozenset([gone])).to_json())
    run(lake)
    assert not journal.exists()
    after = read_manifest(lake.root, gone)
    assert after
    assert (after.files, after.raw) == ((), ())


@given(st.binary(max_size=40), st.frozensets(st.uuids(), max_size=3), st.frozensets(st.text(max_size=9), max_size=3))
def test_a_journal_comes_out_of_its_json_as_it_went_in(
    client: bytes, subscriptions: frozenset[UUID], names: frozenset[str]
) -> None:
    journal = ErasureJournal(client, subscriptions, names)
    assert ErasureJournal.from_json(journal.to_json()) == journal


OWN_LINES = st.sampled_from([
    json.dumps({"event": "push", "subscription_id": str(PHONE)}),
    json.dumps({"event": "notification", "client_id": CLIENT.hex(), "subscription_id": str(PHONE)}),
    json.dumps({"event": "of a later version", "text": f"for {PHONE}"}),
    f"no JSON, but {CLIENT.hex()}",
])  # fmt: skip
OTHER_LINES = st.sampled_from([
    json.dumps({"event": "push", "subscription_id": str(TABLET)}),
    json.dumps({"event": "notification", "client_id": OTHER.hex(), "sender": CLIENT.hex()}),
    json.dumps({"event": "observed", "raw": "AAAA"}),
    "no JSON",
    "",
])  # fmt: skip


@given(st.lists(st.tuples(st.booleans(), OWN_LINES, OTHER_LINES), max_size=12), st.sampled_from([bytes, gzip.compress]))
def test_of_a_file_the_clients_lines_go_and_all_others_stay_in_order(
    lines: list[tuple[bool, str, str]], packed: Callable[[bytes], bytes]
) -> None:
    """As a sender it is none of those whom an event is about."""
    chosen = [own if is_own else other for is_own, own, other in lines]
    kept = [other for is_own, _, other in lines if not is_own]
    content = packed("".join(f"{line}\n" for line in chosen).encode())
    after, removed = TRACES.without_lines(content)
    assert removed == sum(is_own for is_own, _, _ in lines)
    assert (gzip.decompress(after) if packed is gzip.compress else after).decode().splitlines() == kept
    if not removed:
        assert after == content


@pytest.mark.parametrize(
    ("failed", "kept"),
    [
        (json.dumps({"rawData": b64encode(f'{{"client_id":"{CLIENT.hex()}"}}'.encode()).decode()}), False),
        (json.dumps({"rawData": b64encode(b"other").decode(), "errorMessage": f"of {PHONE}"}), False),
        (json.dumps({"rawData": b64encode(str(TABLET).encode()).decode()}), True),
        (json.dumps({"rawData": 7}), True),
        (json.dumps(["rawData"]), True),
        (f"cut short: {PHONE}", False),
        ('{"rawData": "', True),
    ],
)
def test_a_failed_record_goes_whole_if_an_id_stands_in_it_packed_or_not(failed: str, *, kept: bool) -> None:
    after, removed = TRACES.without_failed(f"{failed}\nanother\n".encode())
    assert (after, removed) == ((f"{failed}\nanother\n".encode(), 0) if kept else (b"another\n", 1))


def test_any_other_file_loses_the_ids_text_or_not_unless_it_is_parquet() -> None:
    page = f"{PHONE} and {CLIENT.hex()} and {PHONE}, not {TABLET}".encode()
    assert TRACES.without_texts(page) == (f"erased and erased and erased, not {TABLET}".encode(), 3)
    assert TRACES.without_texts(b"\xff" + CLIENT.hex().encode()) == (b"\xfferased", 1)
    with pytest.raises(ValueError, match="is Parquet"):
        TRACES.without_texts(b"PAR1")


ROWS = pa.RecordBatch.from_pydict({
    "client_id": [CLIENT, OTHER, None, None, None],
    "subscription_id": [str(TABLET), str(PHONE), None, str(TABLET), None],
    "message": [None, None, json.dumps({"subscription_id": str(PHONE)}), f"about {PHONE}", None],
    "sender": [OTHER, CLIENT, CLIENT, CLIENT, CLIENT],
}, schema=pa.schema({
    "client_id": pa.binary(), "subscription_id": pa.string(), "message": pa.string(), "sender": pa.binary(),
}))  # fmt: skip


def test_a_row_is_the_clients_by_its_id_by_a_subscription_or_as_a_recipient_and_never_as_the_sender() -> None:
    assert TRACES.columns(ROWS.schema) == ["client_id", "subscription_id", "message"]
    assert TRACES.rows(ROWS).to_pylist() == [True, True, True, False, False]
    assert Traces(CLIENT).rows(ROWS).to_pylist() == [True, False, False, False, False]


def test_subscriptions_are_added_and_not_replaced() -> None:
    both = Traces(CLIENT).with_subscriptions([PHONE]).with_subscriptions([TABLET, PHONE])
    assert both.subscriptions == {PHONE, TABLET}
    assert both.texts == (CLIENT.hex(), str(PHONE), str(TABLET))


def test_the_command_ends_with_1_where_nobody_was_or_is_any_more(
    lake: SmallLake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or a mistyped id would pass for an erasure."""
    assert main(["erase", CLIENT.hex(), "--lake", lake.root]) == 0
    assert "» removed, of 1 subscription\n" in capsys.readouterr().err
    for client in (NOBODY, CLIENT):
        assert main(["erase", client.hex(), "--lake", lake.root]) == 1
        said = capsys.readouterr()
        assert json.loads(said.out) == {"removed": {}, "subscriptions": 0, "left": []}
        assert said.err == "» nothing is left: the lake has nothing of this client (mistyped, or erased already)\n"


def test_what_was_left_out_and_never_committed_is_removed_too(lake: SmallLake) -> None:
    """As a job leaves it that was stopped before its commit."""
    orphan = SmallLake(Path(lake.root).with_name("another"))
    manifest = orphan.commit(WAY.push())
    [file] = manifest.kinds["push"]
    target = Path(lake.root) / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes((Path(orphan.root) / file.path).read_bytes())
    assert run(lake).removed["push"] == 2
    assert not target.exists()
