"""`explain` and `erase` over S3, by the stand-in of `test_commits_s3`."""

import pytest

from pipeline.erase.run import erase
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.commits import read_manifest
from pipeline.lake.lookup import Lookup
from pipeline.period import DAY_MS, Period, hour_path
from tests.pipeline.small_lake import CLIENT, PHONE, START, SmallLake, Way, ruled, subscribed
from tests.pipeline.test_commits_s3 import ROOT, s3, server  # noqa: F401 - fixtures

pytestmark = pytest.mark.usefixtures("s3")


def test_a_lake_in_s3_is_explained_and_then_erased_with_its_old_objects() -> None:
    lake, way = SmallLake(ROOT), Way()
    lake.commit(subscribed(), ruled(way.key), *way.delivered(), at=START)
    (receipt,) = explain(Lookup(ROOT), ExplainRequest(way.envelope_id, Period(START - DAY_MS, START + DAY_MS))).receipts
    assert [one.verdict.found for one in receipt.notifications] == ["right"]

    erased = erase(ROOT, CLIENT, dry_run=False, report=lambda _: None)

    assert erased.removed == {"events": 4, "notification": 1, "push": 1, "rules": 1, "subscription": 1}
    ids = (CLIENT, CLIENT.hex().encode(), str(PHONE).encode())
    assert [path for path, content in lake.texts() if any(each in content for each in ids)] == []
    manifest = read_manifest(ROOT, hour_path(START))
    assert manifest
    assert manifest.lines == 2
