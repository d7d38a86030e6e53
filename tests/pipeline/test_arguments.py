"""What the command line takes and what it refuses, of the jobs with Spark and of those without."""

import argparse
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from clarion.clock import now_ms
from clarion.networks.simplex.commands import client_id
from clarion.networks.zulip.servers import Server
from pipeline import arguments, cli, direct
from pipeline.__main__ import main
from pipeline.findings import REPAIRABLE, Difference
from pipeline.period import DAY_MS, Period
from pipeline.terms import Terms, terms_of

LAKE = ["--lake", "/var/lake"]
NOON = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp() * 1000)
TODAY = NOON // DAY_MS * DAY_MS
LIVE = ("replay", "retire")
"""What they do, they do to the live system."""
WITHOUT_SPARK = {"explain": ["0192d3a4-7c1e-7abc-8def-0123456789ab"], "erase": ["ab" * 32]}


def parsed(*words: str) -> argparse.Namespace:
    return arguments.parse([*words, *LAKE])


@pytest.mark.parametrize("job", cli.JOBS)
def test_each_job_is_of_yesterday_unless_it_is_asked_otherwise(job: str) -> None:
    """Which may have been in another month, and in a year that had a 29th of February."""
    careful = ["--dry-run"] if job in LIVE else []
    wanted = parsed(job, "--now", "2024-03-01T12:00", *careful)
    assert str(wanted.period) == "2024-02-29 00:00:00 to 2024-03-01 00:00:00"
    assert (wanted.job, wanted.has_explicit_period) == (job, False)


@pytest.mark.parametrize("job", cli.JOBS)
def test_no_job_goes_without_a_lake(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse([job])
    assert ended.value.code == 2
    assert "--lake" in capsys.readouterr().err


def test_a_period_is_in_utc_unless_it_says_otherwise() -> None:
    wanted = parsed("reconcile", "--from", "2026-03-01", "--to", "2026-03-01T02:00+01:00")
    assert wanted.period == Period(TODAY, TODAY + 3_600_000)
    assert wanted.has_explicit_period


@pytest.mark.parametrize("job", cli.JOBS)
def test_no_job_takes_what_is_yet_to_come_for_the_present(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It would remove a file that another writer is about to commit, and seal an hour that is under way."""
    soon = datetime.now(UTC) + timedelta(seconds=30)
    assert parsed(job, "--now", soon.isoformat()).now > now_ms()
    with pytest.raises(SystemExit) as ended:
        parsed(job, "--now", (soon + timedelta(minutes=5)).isoformat())
    assert ended.value.code == 2
    assert "--now must not be in the future" in capsys.readouterr().err


@pytest.mark.parametrize("job", LIVE)
def test_nothing_live_is_touched_by_what_was_known_in_the_past(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What was delivered or used since would be left aside."""
    assert parsed(job, "--now", "2026-03-01", "--dry-run").now == TODAY
    with pytest.raises(SystemExit) as ended:
        parsed(job, "--now", "2026-03-01")
    assert ended.value.code == 2
    assert "--now of the past needs --dry-run" in capsys.readouterr().err


def test_a_beginning_in_the_future_is_named_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """And not an end, which nobody has given."""
    with pytest.raises(SystemExit):
        parsed("report", "--from", "2999-01-01")
    assert "without --to, --from must be before today" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["explain", *WITHOUT_SPARK["explain"], *LAKE, "--from", "2999-01-01"])
    assert "without --to, --from must be before now" in capsys.readouterr().err


def test_the_help_names_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["--help"])
    assert ended.value.code == 0
    [jobs] = re.findall(r"\{(\S+)\} \.\.\.", capsys.readouterr().out)
    assert set(jobs.split(",")) == {*cli.JOBS, *direct.JOBS}


@pytest.mark.parametrize("job", [*cli.JOBS, *direct.JOBS])
def test_the_help_of_a_job_says_what_each_option_does(
    job: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit) as ended:
        main([job, "--help"])
    assert ended.value.code == 0
    _, _, options = capsys.readouterr().out.partition("\noptions:\n")
    lines = re.findall(r"^  (-.*)\n?(?=^  -|\Z)", options, re.MULTILINE)
    assert len(lines) > 2
    assert [line for line in lines if not re.search(r"\S {2,}\S", line)] == []


def test_the_help_of_generate_says_how_much_there_is_of_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments.parse(["generate", "--help"])
    wanted = parsed("generate")
    said = re.findall(r"--(\w+) [A-Z]+\s[^-]*?default:\s+(\d+)", capsys.readouterr().out)
    assert dict(said) == {
        name: str(getattr(wanted, name)) for name in ("statements", "rules", "messages", "earlier", "delayed", "seed")
    }


def test_an_erasure_is_of_all_of_the_lake_and_says_so_where_a_time_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--from", "--to"):
        with pytest.raises(SystemExit) as ended:
            main(["erase", *LAKE, option, "2026-03-01", *WITHOUT_SPARK["erase"]])
        assert ended.value.code == 2
        assert capsys.readouterr().err.endswith("erase has neither --from nor --to: it is always all of the lake\n")


@pytest.mark.parametrize("job", cli.SETTINGS)
def test_the_environment_is_asked_before_spark_starts(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("CLARION_")]:
        monkeypatch.delenv(name)
    assert main([job, "--lake", str(tmp_path)]) == 4
    said = capsys.readouterr().err
    assert said.startswith(f"» {job} can't go on: the environment is not as docs/lake.md has it: CLARION_")


def test_a_watch_pauses_for_whole_seconds() -> None:
    """Spark takes no others."""
    assert str(parsed("watch", "--every", "30").every) == "30"


def test_a_clients_id_may_begin_with_0x() -> None:
    assert arguments.client_id("0x" + "ab" * 32) == bytes.fromhex("ab" * 32)


def test_a_period_that_has_only_a_beginning_goes_up_to_today() -> None:
    assert parsed("report", "--from", "2026-02-27", "--now", "2026-03-01T12:00").period == Period(
        TODAY - 2 * DAY_MS, TODAY
    )


@pytest.mark.parametrize(
    "words",
    [
        ["reconcile", "--from", "2026-03-02", "--to", "2026-03-01"],
        ["reconcile", "--from", "2026-03-01", "--to", "2026-03-01"],
        ["reconcile", "--from", "yesterday"],
        ["reconcile", "--from", "2026-02-29"],
        ["reconcile", "--grace-seconds", "1.5"],
        ["replay", "--network", "another"],
        ["replay", "--provisional"],
        ["replay", "--difference", "lost"],
        ["replay", "--difference", "late"],
        ["replay", "--difference", "unexpected"],
        ["replay", "--per-second", "many"],
        ["replay", "--per-second", "0"],
        ["replay", "--per-second", "nan"],
        ["replay", "--receipt", "f88648cc"],
        ["replay", "--subscription", "mine"],
        ["replay", "--client", "0xzz"],
        ["replay", "--client", ""],
        ["replay", "--client", "73696d706c65783a"],
        ["compact", "--dry-run"],
        ["watch", "--every", "0"],
        ["watch", "--from", "2026-03-01"],
        ["retire", "--to", "2026-03-01"],
        ["report", "--stream", "events"],
        ["compact", "--stream", "events", "--assume-quiet"],
        ["watch", "--strict"],
        ["generate", "--from", "2026-03-01T10:00", "--to", "2026-03-01T10:30"],
        ["generate", "--from", "2026-03-01T10:10", "--to", "2026-03-01T12:10"],
        ["generate", "--from", "2026-03-01T10:00", "--to", "2026-03-01T12:10"],
        ["repair"],
    ],
    ids=" ".join,
)
def test_bad_usage_ends_with_two(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2


@pytest.mark.parametrize("option", ["--subscription", "--receipt"])
def test_what_may_be_a_push_token_is_not_repeated(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("replay", option, "cAAA:APA91bTOKEN")
    said = capsys.readouterr().err
    assert ("is no UUID" in said, "TOKEN" in said) == (True, False)


@pytest.mark.parametrize("job", ["reconcile", "watch", "replay", "daily"])
def test_who_judges_does_so_by_the_same_terms_by_default(job: str) -> None:
    assert terms_of(parsed(job)) == Terms()


@pytest.mark.parametrize("difference", REPAIRABLE)
def test_a_replay_may_be_of_one_kind_that_can_be_repaired(difference: Difference) -> None:
    assert parsed("replay", "--difference", difference).difference == difference


def test_the_daily_run_takes_what_its_parts_do() -> None:
    words = [
        "--stream",
        "events",
        "--provisional",
        "--grace-seconds",
        "0",
        "--strict",
        "--page",
        "p.html",
        "--stage",
        "dev",
    ]
    wanted = parsed("daily", *words)
    assert (wanted.stream, wanted.provisional, wanted.grace) == ("events", True, 0)
    assert (wanted.strict, wanted.page, wanted.stage) == (True, "p.html", "dev")


@pytest.mark.parametrize(("job", "words"), WITHOUT_SPARK.items())
def test_without_a_lake_nothing_is_read_and_no_folder_made(
    job: str, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "lake"
    assert main([job, *words, "--lake", str(nowhere)]) == 1
    assert f"there is no lake at {nowhere}" in capsys.readouterr().err
    assert not nowhere.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["explain"],
        ["explain", *LAKE],
        ["explain", *WITHOUT_SPARK["explain"]],
        ["explain", *WITHOUT_SPARK["explain"], *LAKE, "--client", "no hex"],
        ["explain", *WITHOUT_SPARK["explain"], *LAKE, "--client", ""],
        ["explain", *WITHOUT_SPARK["explain"], *LAKE, "--to", "noon"],
        ["explain", *WITHOUT_SPARK["explain"], *LAKE, "--from", "2026-03-02", "--to", "2026-03-01"],
        ["explain", *WITHOUT_SPARK["explain"], *LAKE, "--lookback-hours", "3"],
        ["erase", *LAKE],
        ["erase", "no hex", *LAKE],
        ["erase", "", *LAKE],
        ["erase", *WITHOUT_SPARK["erase"], *LAKE, "--from", "2026-03-01"],
    ],
    ids=" ".join,
)
def test_bad_usage_of_the_jobs_without_spark_ends_with_two(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


@pytest.mark.parametrize("job", ["reconcile", "explain"])
def test_what_is_no_time_is_answered_by_one_that_is(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([job, *LAKE, "--from", "yesterday"])
    assert "'yesterday' is no time such as 2026-11-20 or 2026-11-20T16:00" in capsys.readouterr().err


def test_every_networks_clients_can_be_named() -> None:
    """A public key, the server of Zulip that calls, and a token of SimpleX, whose id has 24 bytes."""
    ids = [b"k" * 32, Server(str(UUID(int=7))).client_id, client_id(bytes(24).hex())]
    assert [arguments.client_id(each.hex()) for each in ids] == ids


def test_no_job_is_there_twice() -> None:
    assert not set(cli.JOBS) & set(direct.JOBS)
    assert set(WITHOUT_SPARK) == set(direct.JOBS)


@pytest.mark.parametrize("text", ["2026-03-01T12:00", "2026-03-01T12:00Z", "2026-03-01 13:00:00+01:00"])
def test_an_instant_is_read_as_iso_8601(text: str) -> None:
    assert arguments.instant(text) == NOON
