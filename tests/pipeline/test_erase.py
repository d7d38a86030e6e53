"""What `erase` removes of a client, and that nothing brings it back."""

import gzip
import json
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from clarion.channels import Channel
from clarion.decisions import PushDecision, Wanted
from clarion.deliveries import DeliveryRecord, pack
from clarion.messages import EnvelopeMessage, PushMessage, Recipient
from clarion.networks import STATEMENTS, network
from clarion.subscription_events import RuleRef
from pipeline.__main__ import main
from pipeline.compaction.completeness import incomplete_hours
from pipeline.erase.run import Erased, ErasureJournal, erase
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.commits import CommitConflict, LakeView, Manifest, commit, new_commit, read_manifest, update
from pipeline.lake.files import listed
from pipeline.lake.lookup import Lookup, kind_of
from pipeline.lake.parquet import write_parquet
from pipeline.period import DAY_MS, Period, hour_path, hour_start
from tests.pipeline.small_lake import CLIENT, OTHER, PHONE, START, TABLET, TOPIC, SmallLake, Way, ruled, subscribed

HOUR = hour_path(START)
PERIOD = Period(START - DAY_MS, START + DAY_MS)
IDS = (CLIENT, CLIENT.hex().encode(), str(PHONE).encode(), PHONE.bytes)


WAY = Way()
RULED = [subscribed(), ruled(WAY.key), subscribed(TABLET, OTHER), ruled(WAY.key, TABLET)]
SENT = [*WAY.delivered(), WAY.notification(to=TABLET, client=OTHER), WAY.push(to=TABLET)]


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    """Two clients with a rule for the same statement, which both got."""
    made = SmallLake(tmp_path / "lake")
    made.commit(*RULED)
    made.commit(*SENT)
    return made


def run(lake: SmallLake, *, dry_run: bool = False) -> Erased:
    return erase(lake.root, CLIENT, dry_run=dry_run, on_progress=lambda _: None)


def holding(lake: SmallLake) -> list[str]:
    """The files in which one of the client's ids stands, compressed or not."""
    return [path for path, content in lake.texts() if any(each in content for each in IDS)]


def write(lake: SmallLake, path: str, content: bytes) -> None:
    target = Path(lake.root) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def test_nothing_of_the_client_is_left(lake: SmallLake) -> None:
    assert holding(lake)
    erased = run(lake)
    assert erased == Erased({"events": 4, "notification": 1, "push": 1, "rules": 1, "subscription": 1}, 1)
    assert holding(lake) == []
    assert run(lake) == Erased({}, 0)


def test_others_keep_all_that_is_theirs(lake: SmallLake) -> None:
    run(lake)
    (receipt,) = explain(Lookup(lake.root), ExplainRequest(WAY.envelope_id, PERIOD)).receipts
    (notification,) = receipt.notifications
    assert receipt.verdict.found == "right"
    assert (notification.client_id, notification.verdict.found) == (OTHER.hex(), "right")


def test_a_dry_run_counts_the_same_and_writes_nothing(lake: SmallLake) -> None:
    before = list(lake.texts())
    dry = run(lake, dry_run=True)
    assert list(lake.texts()) == before
    assert run(lake) == dry


def test_manifests_have_the_new_files_with_their_digests(lake: SmallLake) -> None:
    run(lake)
    manifest = read_manifest(lake.root, HOUR)
    assert manifest
    for each in (*manifest.raw, *manifest.files):
        content = (Path(lake.root) / each.path).read_bytes()
        assert (each.bytes, each.digest) == (len(content), sha256(content).hexdigest())
    assert {kind: sum(each.lines for each in files) for kind, files in manifest.kinds.items()} == {
        "observed": 1, "envelope": 1, "notification": 1, "push": 1,
    }  # fmt: skip
    assert manifest.sealed_at == START


def test_an_hour_that_had_nothing_else_can_still_be_judged(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "lake")
    lake.commit(WAY.notification())
    run(lake)
    after = read_manifest(lake.root, HOUR)
    assert after
    assert (after.lines, after.erased, after.counted) == (0, 1, None)
    hour = Period(hour_start(HOUR), hour_start(HOUR) + 1)
    assert HOUR not in {each.hour for each in incomplete_hours(LakeView(lake.root), hour, START)}


@pytest.mark.parametrize("compacted", [True, False])
def test_an_hour_is_not_taken_for_emptier_than_its_records_for_what_was_erased(
    tmp_path: Path, *, compacted: bool
) -> None:
    """`compact` asks how many came, and the answer stays the same whoever is erased."""
    lake, others = SmallLake(tmp_path / "lake"), [*SENT[:2], *SENT[4:]]
    path = lake.stream(*RULED[:1], *SENT, at=START)
    if compacted:
        lake.compact(path, *RULED[:1], *SENT, at=START)
    run(lake)
    if not compacted:
        lake.compact(path, *others, at=START)
    after = update(lake.root, HOUR, lambda known: replace(known, counted=7))
    assert (after.lines, after.erased, after.arrived) == (4, 3, 7)
    hour = Period(hour_start(HOUR), hour_start(HOUR) + 1)
    assert HOUR not in {each.hour for each in incomplete_hours(LakeView(lake.root), hour, START)}
    assert not [doubt for doubt in Lookup(lake.root).doubts(hour) if "have arrived" in doubt]


def test_a_compaction_that_began_before_loses_its_race(lake: SmallLake) -> None:
    stale = read_manifest(lake.root, HOUR)
    assert stale
    run(lake)
    with pytest.raises(CommitConflict):
        commit(lake.root, replace(stale, commit=new_commit()), stale.commit)


def test_so_does_the_first_compaction_of_an_hour_whose_raw_file_was_cleaned(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "lake")
    lake.stream(*RULED, *SENT, at=START)
    assert run(lake).removed == {"events": 4}
    assert holding(lake) == []
    with pytest.raises(CommitConflict):
        commit(lake.root, Manifest(HOUR, new_commit()), None)
    answer = explain(Lookup(lake.root), ExplainRequest(WAY.envelope_id, PERIOD))
    assert [one.client_id for one in answer.receipts[0].notifications] == [OTHER.hex()]


def test_a_run_that_was_stopped_is_finished_by_the_next(lake: SmallLake) -> None:
    """What the first hour says whose the subscription is, it has removed: of the second, pushes alone are left."""
    lake.commit(Way(START + DAY_MS, 2).push())

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        erase(lake.root, CLIENT, dry_run=False, on_progress=stop)
    assert [path for path in holding(lake) if path.startswith("erasures/")]
    assert run(lake).removed["push"] == 2
    assert holding(lake) == []


def test_a_stopped_run_for_another_client_is_left_to_its_own(lake: SmallLake) -> None:
    other = ErasureJournal(OTHER, frozenset([TABLET]), frozenset([HOUR])).to_json()
    write(lake, "erasures/another.json", other.encode())
    run(lake)
    assert (Path(lake.root) / "erasures/another.json").read_text() == other


def test_what_a_commit_has_left_out_is_removed_at_once(lake: SmallLake) -> None:
    before = read_manifest(lake.root, HOUR)
    assert before
    (old,) = before.kinds["push"]
    rows = pq.read_table(Path(lake.root) / old.path)
    new = write_parquet(lake.root, "push/day=2026-09-21/hour=14/commit=2", rows.to_batches())
    commit(lake.root, replace(before, commit="2", kinds={**before.kinds, "push": (new,)}), before.commit)
    assert run(lake).removed["push"] == 2
    assert old.path not in listed(lake.root, "push")
    assert holding(lake) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_file_that_has_expired_before_its_manifest_holds_nobody(lake: SmallLake, *, dry_run: bool) -> None:
    """A late line has brought the hour another commit, whose manifest is younger than the first files."""
    late = Way(START, 2)
    lake.commit(late.notification(), late.push(), at=START)
    manifest = read_manifest(lake.root, HOUR)
    assert manifest
    expired = [manifest.kinds[kind][0].path for kind in ("notification", "push")]
    for path in (*expired, manifest.raw[0].path):
        (Path(lake.root) / path).unlink()
    kinds = {"notification": 1, "push": 1}
    ruled = {"events": 4, "rules": 1, "subscription": 1}
    assert run(lake, dry_run=dry_run).removed == kinds | ruled
    assert bool(holding(lake)) == dry_run


@pytest.mark.parametrize("name", ["snapshots/subscription/day=2026-11-20", "differences/from=1/to=2", "replays/run=1"])
def test_what_is_of_no_hour_is_committed_without_the_client(lake: SmallLake, name: str) -> None:
    rows = [
        {"subscription_id": str(PHONE), "client_id": CLIENT, "message": None},
        {"subscription_id": str(TABLET), "client_id": OTHER, "message": "to its tablet"},
        {"subscription_id": str(TABLET), "client_id": OTHER, "message": json.dumps({"client_id": CLIENT.hex()})},
    ]
    columns = [("subscription_id", pa.string()), ("client_id", pa.binary()), ("message", pa.string())]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(columns))
    made = write_parquet(lake.root, f"{name}/commit=1", [batch])
    kind = name.partition("/")[0]
    commit(lake.root, Manifest(name, "1", START, None, (), {kind: (made,)}), None)
    assert run(lake).removed[kind] == 2
    after = read_manifest(lake.root, name)
    assert after
    assert [
        row["message"] for each in after.files for row in pq.read_table(Path(lake.root) / each.path).to_pylist()
    ] == ["to its tablet"]
    assert holding(lake) == []


def test_a_push_to_somebody_else_that_a_replay_has_sent_stays_in_its_plan_though_the_client_is_its_sender(
    lake: SmallLake,
) -> None:
    """Without its row nobody would know that the loss was repaired: it would be pushed once more."""
    message = EnvelopeMessage(network=STATEMENTS, receipt=WAY.receipt, observed_at=START, raw=WAY.raw)
    envelope, to = network(STATEMENTS).decode(WAY.raw), Recipient(TABLET, OTHER, Channel.APNS)
    push = PushMessage.of(message, envelope, WAY.key, Wanted.ALERT, to).to_json()
    assert WAY.sender
    assert WAY.sender.hex() in push
    rows = pa.RecordBatch.from_pylist([{"subscription_id": str(TABLET), "message": push}])
    made = write_parquet(lake.root, "replays/run=1/commit=1", [rows])
    commit(lake.root, Manifest("replays/run=1", "1", START, None, (), {"replays/run=1": (made,)}), None)
    assert erase(lake.root, WAY.sender, dry_run=False, on_progress=lambda _: None) == Erased({}, 0)
    assert erase(lake.root, OTHER, dry_run=False, on_progress=lambda _: None).removed["replays/run=1"] == 1


def test_the_index_of_deliveries_has_only_others(lake: SmallLake) -> None:
    looks_zipped = UUID("1f8b0000-0000-0000-0000-000000000000")
    records = [DeliveryRecord(each, START, PushDecision.DELIVERED, 300, 1) for each in (PHONE, looks_zipped)]
    write(lake, "deliveries/day=2026-09-21/hour=14/0.gz", pack(records))
    assert run(lake).removed["deliveries"] == 1
    assert (Path(lake.root) / "deliveries/day=2026-09-21/hour=14/0.gz").read_bytes() == pack(records[1:])


def test_pages_and_tables_about_a_period_no_longer_show_it(lake: SmallLake) -> None:
    write(lake, "reports/from=1/to=2/report.html", f"<td>{PHONE}</td><td>{TABLET}</td>".encode())
    pq.write_table(pa.table({"subscription_id": [str(PHONE), str(TABLET)]}), Path(lake.root) / "reports/table.parquet")
    pq.write_table(pa.table({"hour": ["16"], "count": [1]}), Path(lake.root) / "reports/funnel.parquet")
    assert run(lake).removed["reports"] == 2
    assert (Path(lake.root) / "reports/from=1/to=2/report.html").read_text() == f"<td>erased</td><td>{TABLET}</td>"
    assert pq.read_table(Path(lake.root) / "reports/table.parquet").to_pylist() == [{"subscription_id": str(TABLET)}]


def test_ids_are_blotted_out_of_what_is_no_text_as_well(lake: SmallLake) -> None:
    write(lake, "checkpoints/state", b"\xff" + str(PHONE).encode())
    run(lake)
    assert (Path(lake.root) / "checkpoints/state").read_bytes() == b"\xfferased"


def test_records_that_the_stream_could_not_write_are_removed_whole(lake: SmallLake) -> None:
    failed = [{"rawData": b64encode(one.to_line()).decode()} for one in (WAY.push(), WAY.push(to=TABLET))]
    write(lake, "errors/failed/day=2026-09-21/hour=14/0", "".join(f"{json.dumps(one)}\n" for one in failed).encode())
    assert run(lake).removed["errors"] == 1
    assert holding(lake) == []


def test_lines_that_nobody_here_can_read_are_removed_if_an_id_stands_in_them(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path / "lake")
    newer = f'{{"version":9,"event":"newer","whose":"{CLIENT.hex()}"}}\n{CLIENT.hex()} no JSON\n{{"event":"newer"}}\n'
    write(lake, "events/day=2026-09-21/hour=14/0", newer.encode())
    assert run(lake).removed == {"events": 2}
    assert (Path(lake.root) / "events/day=2026-09-21/hour=14/0").read_bytes() == b'{"event":"newer"}\n'


def test_in_hours_that_are_not_compacted_others_keep_what_names_the_client_as_its_sender(tmp_path: Path) -> None:
    """For statements a client is a key that others listen to, and a rule's key has it within."""
    lake = SmallLake(tmp_path / "lake")
    key = b"\x01" + CLIENT + TOPIC
    theirs = [
        subscribed(TABLET, OTHER),
        ruled(key, TABLET).model_copy(update={"rules": (RuleRef(key=key, condition=CLIENT),)}),
        WAY.notification(to=TABLET, client=OTHER).model_copy(update={"sender": CLIENT, "key": key}),
        WAY.envelope().model_copy(update={"sender": CLIENT}),
        WAY.push(to=TABLET),
    ]
    path = lake.stream(*theirs, subscribed(), ruled(key), *WAY.delivered(), at=START)
    assert run(lake).removed == {"events": 4}
    left = [*theirs, *WAY.delivered()[:2]]
    kept = gzip.decompress((Path(lake.root) / path).read_bytes()).splitlines()
    assert [Counter(json.loads(line)["event"] for line in kept)] == [Counter(kind_of(type(one)) for one in left)]
    assert kept[: len(theirs)] == [one.to_line().strip() for one in theirs]


def test_a_line_that_nobody_here_can_read_names_the_client_by_its_whole_id(tmp_path: Path) -> None:
    """But for the sender's own field: of a later version, or of no kind, anything else may say whose it is."""
    lake = SmallLake(tmp_path / "lake")
    others = [
        {"version": 2, "event": "notification", "sender": CLIENT.hex(), "key": f"01{CLIENT.hex()}{TOPIC.hex()}"},
        {"version": 1, "event": "newer", "key": f"01{CLIENT.hex()}"},
    ]
    own = [
        {"version": 2, "event": "notification", "whose": CLIENT.hex()},
        {"version": 1, "event": "push", "client_id": [CLIENT.hex()]},
        {"version": 1, "event": "newer", "text": f"of {PHONE}, and others"},
    ]
    lake.commit(subscribed())
    lines = [json.dumps(each).encode() for each in (*others, *own)]
    path = "events/day=2026-09-21/hour=14/odd"
    write(lake, path, b"".join(line + b"\n" for line in (*lines, b"cut short: 01" + CLIENT.hex().encode())))
    run(lake)
    assert (Path(lake.root) / path).read_bytes().splitlines() == [
        *lines[: len(others)], b"cut short: 01" + CLIENT.hex().encode(),
    ]  # fmt: skip


def test_as_the_sender_of_others_envelopes_it_stays(lake: SmallLake) -> None:
    """What a network shows to anybody, and whom others listen to, is not its own."""
    sender = WAY.sender
    assert sender
    assert erase(lake.root, sender, dry_run=False, on_progress=lambda _: None) == Erased({}, 0)


def test_the_command_counts_as_json(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["erase", CLIENT.hex(), "--lake", lake.root, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "removed": {"events": 4, "notification": 1, "push": 1, "rules": 1, "subscription": 1}, "subscriptions": 1, "left": []
    }  # fmt: skip
    assert "would be removed" in said.err
