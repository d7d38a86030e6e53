"""The lake's commits in S3: what is asked of it, and what it refuses.

The stand-in is moto's server, which holds a PUT to its conditions as S3 does.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from pipeline.compaction.vacuum import vacuum
from pipeline.lake import files
from pipeline.lake.commits import CommitConflict, LakeView, commit, manifest_path, read_manifest
from pipeline.lake.files import swap_text
from tests.pipeline.test_commits import DAY, HOUR, made, values

BUCKET = "lake"
ROOT = f"s3://{BUCKET}"
MANIFEST = f"/{BUCKET}/{manifest_path(HOUR)}"
LIST = f"symlinks/push/{manifest_path(HOUR).removeprefix('manifests/').removesuffix('.json')}/files"
CONDITIONS = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")


@dataclass
class RecordedS3:
    """moto's application, with what it has been asked since `requests` was last cleared.

    What lies in `before`, by method and path, happens once before such a request is answered. Those in `refused` are
    answered as S3 does where a grant for the key is missing.
    """

    application: Callable[..., Iterable[bytes]]
    requests: list[dict[str, Any]] = field(default_factory=list)
    before: dict[tuple[str, str], Callable[[], object]] = field(default_factory=dict)
    refused: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.requests.append(environ)
        asked = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if meanwhile := self.before.pop(asked, None):
            meanwhile()
        if asked in self.refused:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [b"<Error><Code>AccessDenied</Code><Message>no grant for kms:Decrypt</Message></Error>"]
        return self.application(environ, start_response)

    def writes(self) -> list[tuple[str, str]]:
        """Method and path of each request that changes something."""
        changing = [each for each in self.requests if each["REQUEST_METHOD"] not in {"GET", "HEAD"}]
        return [(each["REQUEST_METHOD"], each["PATH_INFO"]) for each in changing]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[RecordedS3, str]]:
    """And its address."""
    recorded = RecordedS3(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, recorded, threaded=True, request_handler=MotoRequestHandler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield recorded, f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()


@pytest.fixture
def s3(server: tuple[RecordedS3, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedS3]:
    """With an empty bucket, for boto3 and PyArrow alike."""
    recorded, address = server
    variables = {
        "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    files.s3_client.cache_clear()
    files.root_filesystem.cache_clear()
    client = files.s3_client()
    client.create_bucket(Bucket=BUCKET)
    recorded.requests.clear()
    yield recorded
    recorded.refused.clear()
    for found in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        client.delete_object(Bucket=BUCKET, Key=found["Key"])
    client.delete_bucket(Bucket=BUCKET)
    files.s3_client.cache_clear()
    files.root_filesystem.cache_clear()


def test_what_is_committed_is_read_as_on_a_disk(s3: RecordedS3) -> None:
    new = made(ROOT, HOUR, 1, 2)
    commit(ROOT, new, None)
    assert (LakeView(ROOT).manifests(DAY), values(ROOT)) == ([new], [1, 2])
    assert read_manifest(ROOT, "2026-01-01/00") is None


def test_a_commit_copies_and_renames_nothing(s3: RecordedS3) -> None:
    """Data file, manifest and Athena's list are one PUT each. A rename in S3 would be a copy and a deletion."""
    new = made(ROOT, HOUR, 1)
    commit(ROOT, new, None)
    assert s3.writes() == [("PUT", f"/{BUCKET}/{new.files[0].path}"), ("PUT", MANIFEST), ("PUT", f"/{BUCKET}/{LIST}")]
    assert not any("HTTP_X_AMZ_COPY_SOURCE" in each for each in s3.requests)


def test_a_commit_is_one_request_on_the_condition_that_nothing_has_changed(s3: RecordedS3) -> None:
    first, second = made(ROOT, HOUR, 1), made(ROOT, HOUR, 2)
    commit(ROOT, first, None)
    tag = files.s3_client().head_object(Bucket=BUCKET, Key=manifest_path(HOUR))["ETag"]
    commit(ROOT, second, first.commit)
    puts = [each for each in s3.requests if (each["REQUEST_METHOD"], each["PATH_INFO"]) == ("PUT", MANIFEST)]
    assert [[each.get(name) for name in CONDITIONS] for each in puts] == [["*", None], [None, tag]]


@pytest.mark.parametrize("replaces", [None, "another"])
def test_a_commit_that_does_not_know_its_predecessor_writes_no_manifest(s3: RecordedS3, replaces: str | None) -> None:
    commit(ROOT, made(ROOT, HOUR, 1), None)
    s3.requests.clear()
    with pytest.raises(CommitConflict):
        commit(ROOT, made(ROOT, HOUR, 2), replaces)
    assert ("PUT", MANIFEST) not in s3.writes()
    assert values(ROOT) == [1]


@pytest.mark.parametrize("there", [True, False], ids=["replaced", "created"])
def test_s3_refuses_what_another_commit_overtakes_between_reading_and_writing(s3: RecordedS3, *, there: bool) -> None:
    place = f"{ROOT}/{manifest_path(HOUR)}"
    if there:
        assert swap_text(place, lambda _: "first")

    def overtaken(_: str | None) -> str:
        files.s3_client().put_object(Bucket=BUCKET, Key=manifest_path(HOUR), Body=b"another's")
        return "ours"

    assert not swap_text(place, overtaken)
    assert files.read_text(place) == "another's"


def test_s3_refuses_what_would_replace_an_object_that_has_gone(s3: RecordedS3) -> None:
    place = f"{ROOT}/{manifest_path(HOUR)}"
    assert swap_text(place, lambda _: "first")

    def gone(_: str | None) -> str:
        files.s3_client().delete_object(Bucket=BUCKET, Key=manifest_path(HOUR))
        return "ours"

    assert not swap_text(place, gone)
    assert files.read_text(place) is None


def test_a_commit_whose_answer_was_lost_is_known_as_its_own(s3: RecordedS3) -> None:
    """The client sends such a request again, and S3 refuses the second one."""

    def written_already(_: str | None) -> str:
        files.s3_client().put_object(Bucket=BUCKET, Key=manifest_path(HOUR), Body=b"ours")
        return "ours"

    assert swap_text(f"{ROOT}/{manifest_path(HOUR)}", written_already)


def test_athena_finds_the_files_that_count_in_its_list(s3: RecordedS3) -> None:
    first, second = made(ROOT, HOUR, 1), made(ROOT, HOUR, 2)
    commit(ROOT, first, None)
    both = replace(second, kinds={"push": (*first.files, *second.files)})
    commit(ROOT, both, first.commit)
    assert files.read_text(f"{ROOT}/{LIST}") == "".join(f"{ROOT}/{each.path}\n" for each in both.files)


def test_its_list_follows_a_commit_that_comes_while_it_is_written(s3: RecordedS3) -> None:
    first, second = made(ROOT, HOUR, 1), made(ROOT, HOUR, 2)
    s3.before["PUT", f"/{BUCKET}/{LIST}"] = lambda: commit(ROOT, second, first.commit)
    commit(ROOT, first, None)
    assert read_manifest(ROOT, HOUR) == second
    assert files.read_text(f"{ROOT}/{LIST}") == f"{ROOT}/{second.files[0].path}\n"


def in_three_days() -> int:
    """After the hour's last commit, in UNIX milliseconds."""
    head = files.s3_client().head_object(Bucket=BUCKET, Key=manifest_path(HOUR))
    return (int(head["LastModified"].timestamp()) + 3 * 86_400) * 1000


def test_what_was_replaced_is_removed(s3: RecordedS3) -> None:
    first, second = made(ROOT, HOUR, 1), made(ROOT, HOUR, 2)
    commit(ROOT, first, None)
    commit(ROOT, second, first.commit)
    assert vacuum(ROOT, ["push"], in_three_days()) == [first.files[0].path]
    assert values(ROOT) == [2]


def test_a_list_that_was_not_written_after_its_commit_is_before_what_it_names_is_removed(s3: RecordedS3) -> None:
    first, second = made(ROOT, HOUR, 1), made(ROOT, HOUR, 2)
    commit(ROOT, first, None)
    stale = files.read_text(f"{ROOT}/{LIST}")
    assert stale
    commit(ROOT, second, first.commit)
    files.write_text(f"{ROOT}/{LIST}", stale)
    s3.requests.clear()
    assert vacuum(ROOT, ["push"], in_three_days()) == [first.files[0].path]
    assert files.read_text(f"{ROOT}/{LIST}") == f"{ROOT}/{second.files[0].path}\n"
    assert s3.writes() == [("PUT", f"/{BUCKET}/{LIST}"), ("POST", f"/{BUCKET}")]


def keys() -> list[str]:
    return [each["Key"] for each in files.s3_client().list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def test_files_are_removed_a_thousand_at_a_time_and_leave_no_object_for_their_folder(s3: RecordedS3) -> None:
    paths = [f"push/{number}/{number}.parquet" for number in range(3)]
    for path in paths:
        files.write_text(f"{ROOT}/{path}", "data")
    s3.requests.clear()
    gone = [f"push/{number}/gone" for number in range(files.REMOVED_AT_ONCE)]
    files.remove(ROOT, [*paths, *gone])
    assert s3.writes() == [("POST", f"/{BUCKET}")] * 2
    assert keys() == []


def test_of_a_root_below_the_bucket_s_nothing_else_is_removed(s3: RecordedS3) -> None:
    for root in (ROOT, f"{ROOT}/below"):
        files.write_text(f"{root}/push/one", "data")
    files.remove(f"{ROOT}/below", ["push/one"])
    assert keys() == ["push/one"]


def test_what_s3_refuses_to_remove_is_an_error(s3: RecordedS3) -> None:
    """S3 says so within an answer that is no error, as where a grant is missing."""
    refused = {"Errors": [{"Key": "push/one", "Code": "AccessDenied"}]}
    events = files.s3_client().meta.events
    events.register("after-call.s3.DeleteObjects", lambda parsed, **_: parsed.update(refused))
    with pytest.raises(OSError, match="AccessDenied for push/one"):
        files.remove(ROOT, ["push/one"])
