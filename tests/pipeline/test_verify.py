from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest
import sr25519
from pyspark.sql import SparkSession

from clarion.decisions import Wanted
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import Proof, ProofKind, Statement
from clarion.networks.statements.rules import key_of
from clarion.networks.statements.signature import sign
from pipeline.columns import EventKind
from pipeline.lake.commits import Manifest, commit, data_folder
from pipeline.lake.event_lake import EventLake
from pipeline.lake.parquet import write_parquet
from pipeline.period import HOUR_MS, Period, hour_path
from pipeline.reconciliation.verify import Facts, facts, verified
from tests import toy
from tests.pipeline.small_lake import write_rows

KEYS = sr25519.pair_from_seed(sha256(b"alice").digest())
TOPICS = (b"a" * 32, b"b" * 32, b"a" * 32)
AT = 1_790_000_000_000 // HOUR_MS * HOUR_MS
ARRIVED = Period(AT, AT + 1)
SIGNED = sign(Statement(7 << 32, TOPICS, b"hello"), KEYS)


def test_the_facts_of_a_true_envelope_are_its_own() -> None:
    keys = [key_of(KEYS[0], topic) for topic in TOPICS[:2]]
    known = Facts([SIGNED.hash], [KEYS[0]], [keys], [7], [None], [["alert", "alert"]], [None])
    assert facts([STATEMENTS], [SIGNED.encoded]) == known


@pytest.mark.usefixtures("toy")
def test_each_envelope_is_read_by_its_own_network() -> None:
    forged = toy.Saying(rooms=("hall", "attic"), text="hi", genuine=False).to_raw()
    found = facts([STATEMENTS, toy.TOY, toy.TOY, toy.TOY], [SIGNED.encoded, toy.say("hi", author="ann"), forged, b"{}"])
    assert found.sender == [KEYS[0], b"ann", None, None]
    assert found.keys[1:] == [[toy.key_of("hall")], [toy.key_of("hall"), toy.key_of("attic")], ()]
    assert found.flaw == [None, None, "bad_signature", "malformed"]
    assert found.may == [None, list(Wanted), None, None]


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (SIGNED.encoded + b"!", "malformed"),
        (SIGNED._replace(data=b"forged").encoded, "bad_signature"),
        (SIGNED._replace(proof=None).encoded, "unsupported_proof"),
        (SIGNED._replace(proof=Proof(ProofKind.ED25519, bytes(64), KEYS[0])).encoded, "unsupported_proof"),
    ],
)
def test_a_flaw_is_named_as_the_live_path_names_it(raw: bytes, flaw: str) -> None:
    assert facts([STATEMENTS] * 2, [SIGNED.encoded, raw]).flaw == [None, flaw]


def test_only_what_was_observed_in_the_period_is_verified(spark: SparkSession, tmp_path: Path) -> None:
    lake = EventLake(spark, str(tmp_path / "a lake"))
    times = {"before": AT - 1, "first": AT, "last": AT + 9, "after": AT + 10}
    rows = [(AT, STATEMENTS, receipt, at, SIGNED.encoded, None) for receipt, at in times.items()]
    write_rows(lake, EventKind.OBSERVED, rows)

    found = verified(lake.file_paths(EventKind.OBSERVED, ARRIVED), Period(AT, AT + 10)).collect()

    assert sorted(row.receipt for row in found) == ["first", "last"]
    assert {(bytes(row.envelope_id), row.expires_at, row.flaw) for row in found} == {(SIGNED.hash, 7, None)}
    assert verified(lake.file_paths(EventKind.OBSERVED, Period(AT - 1, AT)), Period(0, AT + 10)).count() == 0


def test_a_file_from_before_a_column_came_is_read_without_it(spark: SparkSession, tmp_path: Path) -> None:
    old = pa.table({"receipt": ["old"], "network": [STATEMENTS], "observed_at": [AT], "raw": [SIGNED.encoded]})
    written = write_parquet(str(tmp_path), data_folder("observed", hour_path(AT), "old"), old.to_batches())
    commit(str(tmp_path), Manifest(hour_path(AT), "old", kinds={"observed": (written,)}), None)

    [row] = verified(EventLake(spark, str(tmp_path)).file_paths(EventKind.OBSERVED, ARRIVED), ARRIVED).collect()

    assert (row.receipt, row.location, row.flaw) == ("old", None, None)


def test_nothing_is_verified_where_nothing_has_been_written(spark: SparkSession, tmp_path: Path) -> None:
    assert verified(EventLake(spark, str(tmp_path)).file_paths(EventKind.OBSERVED, ARRIVED), ARRIVED).count() == 0
