"""What holds for every command: help, JSON, exit codes, and no push token in anything it says."""

import json
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from uuid import uuid4

import click
import pytest

from clarion.networks import STATEMENTS
from clarion.networks.zulip.keys import BouncerKeys
from clarion.tables import Subscription
from console import faults, send_test
from console.cli import clarion as group
from console.cli import main
from console.doctor.report import Check
from console.output import print_error, show
from tests.console.account import Account, Clarion

ROOT = Path(__file__).parents[2]
APPLE, GOOGLE = "d15ea5ed" * 8, f"cGJ:APA91b{'F' * 130}"
HASH = "ab" * 32
SERVER, REALM = str(uuid4()), str(uuid4())


def words_of(command: click.Command, *before: str) -> Iterator[tuple[str, ...]]:
    """Each command, by the words that lead to it."""
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from words_of(one, *before, name)
    else:
        yield before


COMMANDS = sorted(" ".join(words) for words in words_of(group))


def test_the_commands_are_those_that_the_page_explains() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    of_zulip = {"keys", "realm add", "realm remove", "retire-key", "rotate-key"}
    of_zulip |= {f"server {change}" for change in ("add", "list", "remove")}

    of_walletconnect = {"create-keys"} | {f"project {change}" for change in (
        "activate", "add", "deactivate", "domain", "list", "remove-type", "rotate-secret", "type"
    )}  # fmt: skip

    every = {"doctor", "export-rules", "mute", "page", "redrive", "send-test", "status", "unmute", "why"}
    assert set(COMMANDS) == every | {f"zulip {words}" for words in of_zulip} | {
        f"walletconnect {words}" for words in of_walletconnect
    } | {f"simplex {words}" for words in ("address", "identity create", "identity rotate")}
    own_page = (ROOT / "docs" / "walletconnect.md").read_text()
    of_simplex = (ROOT / "docs" / "ntf.md").read_text()
    unexplained = [command for command in COMMANDS if f"$ clarion {command}" not in page + own_page + of_simplex]
    assert [command for command in unexplained if f"`{command.removeprefix('walletconnect ')}" not in own_page] == []


def test_the_page_tells_every_exit_code() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()

    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == set(faults.Exit)


def test_the_project_installs_it() -> None:
    (script,) = entry_points(group="console_scripts", name="clarion")

    assert script.load() is main


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps(clarion: Clarion, command: str) -> None:
    ended = clarion(*command.split(), "--help")

    assert ended.code == 0
    assert f"Usage: clarion {command} [OPTIONS]" in ended.out
    assert {"--stage", "--json"} <= set(ended.out.split())


def test_without_a_command_it_helps(clarion: Clarion) -> None:
    assert "Look at a Clarion deployment" in clarion("--help").out


@pytest.fixture
def planted(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deployment whose every subscription holds a token, and whose dispatch answers nothing."""
    account.serve_zulip(BouncerKeys().rotated(1).text)
    monkeypatch.setattr(send_test, "POLL_SECONDS", 0.1)
    for channel, token in (("apns", APPLE), ("voip", APPLE), ("fcm", GOOGLE)):
        row = Subscription(
            str(uuid4()), client_id=b"c" * 32, network=STATEMENTS, channel=channel, token=token, status="active"
        )
        row.generation, row.rule_count, row.created_at, row.updated_at = 0, 0, 1, 1
        row.save()


RIGHT = [
    ["doctor"],
    ["status"],
    ["why", "--envelope", HASH],
    ["redrive", "apns", "--yes"],
    ["mute", "voip", "--yes"],
    ["unmute", "fcm", "--yes"],
    ["export-rules"],
    ["send-test", APPLE, "--channel", "apns", "--yes", "--wait", "1"],
    ["send-test", GOOGLE, "--channel", "fcm", "--yes", "--wait", "1"],
    ["zulip", "server", "add", SERVER, "--devices", "5", "--key-hash", HASH],
    ["zulip", "realm", "add", REALM, "--server", SERVER],
    ["zulip", "server", "list"],
    ["zulip", "realm", "remove", REALM, "--yes"],
    ["zulip", "server", "remove", SERVER, "--yes"],
    ["zulip", "rotate-key", "--yes"],
    ["zulip", "keys"],
]
"""Each command, as it is meant."""


@pytest.mark.usefixtures("planted")
def test_no_command_shows_a_token_and_each_has_json_for_machines(clarion: Clarion) -> None:
    for words in RIGHT:
        plain, machine = clarion(*words), clarion(*words, "--json")
        for ended in (plain, machine):
            assert ended.code in {0, 1}, words
            assert not any(token in ended.out + ended.err for token in (APPLE, GOOGLE)), words
        documents = machine.out.splitlines() if words[0] == "export-rules" else [machine.out]
        assert all(json.loads(document) for document in documents), words


@pytest.mark.usefixtures("planted")
@pytest.mark.parametrize("token", [APPLE, GOOGLE, f"-{GOOGLE}"])
def test_no_usage_error_repeats_a_token(clarion: Clarion, token: str) -> None:
    """The token where it does not belong: in place of each word, as an option, and as one word too many."""
    for words in RIGHT:
        plain = [word for word in words if word not in {APPLE, GOOGLE}]
        misplaced = [[*plain[:at], token, *plain[at + 1 :]] for at in range(len(plain))]
        for wrong in [*misplaced, [*plain, f"--{token}"], [*plain, "--stage", token], [*words, token]]:
            if wrong[0] in {"why", "send-test"} and wrong[-1] not in {token, f"--{token}"}:
                continue  # a token may stand there
            ended = clarion(*wrong)
            assert token not in ended.out + ended.err, wrong


def test_an_error_within_aws_is_one_line(clarion: Clarion, account: Account) -> None:
    account.s3.delete_bucket(Bucket="clarion-prod-lake")

    ended = clarion("why", "--envelope", HASH)

    assert ended.code == 3
    assert ended.err.splitlines()[-1].startswith("AWS refuses ListObjectsV2: NoSuchBucket")


def test_a_ctrl_c_has_its_own_exit_code(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_stage: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("console.deployment.find", interrupt)

    assert main(["status"]) == 130


def test_the_group_knows_no_command_twice() -> None:
    assert isinstance(group, click.Group)
    assert len({command.help for command in group.commands.values()}) == len(group.commands)


def test_what_is_shown_can_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and reasons in AWS are written by others."""
    check = Check(name="queue \x1b]0;title\x07", found="line\nline \x9b2J", todo="\x1b[8m")
    for as_json in (False, True):
        show(check, as_json=as_json)
    print_error("no \x1b[31m such stack")

    said = capsys.readouterr()
    assert not set(said.out + said.err) & {*map(chr, range(32)), *map(chr, range(127, 160))} - {"\n"}
    assert "line\nline" in said.out
