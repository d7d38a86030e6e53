"""`explain` and `erase` over S3, by the stand-in of `test_commits_s3`."""

import pytest

from pipeline.__main__ import main
from pipeline.erase.run import erase
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.commits import manifest_path, read_manifest
from pipeline.lake.lookup import Lookup
from pipeline.period import DAY_MS, Period, hour_path, instant_text
from tests.pipeline.small_lake import CLIENT, PHONE, START, SmallLake, Way, ruled, subscribed
from tests.pipeline.test_commits_s3 import BUCKET, ROOT, RecordedS3, s3, server  # noqa: F401 - fixtures

pytestmark = pytest.mark.usefixtures("s3")


def test_a_lake_in_s3_is_explained_and_then_erased_with_its_old_objects() -> None:
    lake, way = SmallLake(ROOT), Way()
    lake.commit(subscribed(), ruled(way.key), *way.delivered(), at=START)
    (receipt,) = explain(Lookup(ROOT), ExplainRequest(way.envelope_id, Period(START - DAY_MS, START + DAY_MS))).receipts
    assert [one.verdict.found for one in receipt.notifications] == ["right"]

    erased = erase(ROOT, CLIENT, dry_run=False, on_progress=lambda _: None)

    assert erased.removed == {"events": 4, "notification": 1, "push": 1, "rules": 1, "subscription": 1}
    ids = (CLIENT, CLIENT.hex().encode(), str(PHONE).encode())
    assert [path for path, content in lake.texts() if any(each in content for each in ids)] == []
    manifest = read_manifest(ROOT, hour_path(START))
    assert manifest
    assert manifest.lines == 2


@pytest.mark.parametrize(
    "words", [["explain", str(PHONE), "--to", instant_text(START + DAY_MS)], ["erase", CLIENT.hex()]]
)
@pytest.mark.parametrize("what", ["manifest", "data file"])
def test_what_s3_refuses_is_said_in_one_line(
    words: list[str],
    what: str,
    s3: RecordedS3,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    """boto3 reads the one, and PyArrow the other."""
    made = SmallLake(ROOT).commit(subscribed())
    path = manifest_path(made.hour) if what == "manifest" else made.kinds["subscription"][0].path
    s3.refused |= {("GET", f"/{BUCKET}/{path}"), ("HEAD", f"/{BUCKET}/{path}")}
    ended = main([*words, "--lake", ROOT])
    last = capsys.readouterr().err.splitlines()[-1]
    if words[0] == "erase" and what == "data file":
        assert (ended, last.partition(": ")[0]) == (1, "» left as it is")
    else:
        assert (ended, last.partition(": ")[0]) == (4, "» the lake can't be read or written")
    assert "AccessDenied" in last or "ACCESS_DENIED" in last
