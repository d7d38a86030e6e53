"""docs/walletconnect.md, against the calls, limits, options and commands that there are."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from api.networks.walletconnect.notify import MOST_NOTIFICATIONS
from api.networks.walletconnect.router import PROJECT_CALLS, PUBLIC_CALLS
from api.networks.walletconnect.settings import DappApiSettings
from api.networks.walletconnect.subscribers import MOST_READ, MOST_SHOWN
from clarion.networks.walletconnect import buckets
from clarion.networks.walletconnect.did_document import did_document
from clarion.networks.walletconnect.settings import WalletConnectOptions
from console.walletconnect.commands import walletconnect

PAGE = (Path(__file__).parents[2] / "docs" / "walletconnect.md").read_text()
BUCKETS = (
    buckets.NOTIFY_OF_PROJECT,
    buckets.NOTIFY_OF_SUBSCRIBER,
    buckets.SUBSCRIBERS_GET,
    buckets.SUBSCRIBERS_POST,
    buckets.SUBSCRIBE_TOPIC,
    buckets.WELCOME,
    buckets.MARK_ALL_AS_READ,
    buckets.LINK,
)
INTERVALS = {1_000: "a second", 60_000: "a minute", 3_600_000: "an hour"}


def section(title: str) -> str:
    return PAGE.partition(f"\n{title}\n")[2].partition("\n## ")[0].partition("\n### ")[0]


def json_blocks(title: str) -> list[Any]:
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", section(title), re.DOTALL)]


def rows(title: str) -> list[list[str]]:
    lines = re.findall(r"^ *\| (.+) \|$", section(title), re.MULTILINE)
    return [line.split(" | ") for line in lines]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_every_call_is_named_with_who_may_make_it() -> None:
    named = {row[0].strip("`"): row[2] for row in rows("## The calls")[1:]}
    assert named == dict.fromkeys(PROJECT_CALLS, "a project") | dict.fromkeys(PUBLIC_CALLS, "anybody")


def test_the_did_document_has_the_keys_that_were_answered() -> None:
    answered, shown = json_blocks("### Claim a domain")
    keys = (bytes.fromhex(answered[name]) for name in ("subscribeKey", "authenticationKey"))
    assert shown == did_document("app.example.org", *keys)


def test_a_key_is_written_as_the_did_document_has_it_by_the_command_shown() -> None:
    answered, shown = json_blocks("### Claim a domain")
    [command] = re.findall(r"^python3 (?:.*\\\n)*.*$", section("### Claim a domain"), re.MULTILINE)
    assert answered["subscribeKey"] in command
    written = subprocess.run(
        ["/bin/bash", "-c", command], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert written.strip() == shown["verificationMethod"][0]["publicKeyJwk"]["x"]


def test_the_buckets_are_those_that_there_are() -> None:
    shown = [row[2:] for row in rows("## Limits") if len(row) == 4][1:]
    assert shown == [[str(size.most), f"{size.refill} {INTERVALS[size.interval]}"] for size in BUCKETS]


def test_the_limits_are_those_that_there_are() -> None:
    shown = [number(row[1]) for row in rows("## Limits") if len(row) == 2 and row[1][0].isdigit()]
    body_bytes = DappApiSettings.model_fields["body_bytes"].default
    # Of title, texts and domain, the calls' own tests try one character more.
    assert shown == [MOST_NOTIFICATIONS, MOST_SHOWN, 64, 255, 253, body_bytes]
    assert f"more than {MOST_READ:,}" in section("### Subscribers")


def test_every_option_is_explained() -> None:
    shown = [row[0].strip("`") for row in rows("## For operators")]
    assert shown[1:] == list(WalletConnectOptions.model_fields)


def test_every_command_is_explained() -> None:
    named = set(re.findall(r"`project ([a-z-]+)", section("### Projects")))
    projects = walletconnect.commands["project"]
    assert named == set(projects.commands)  # type: ignore[attr-defined] # it is a group
    assert set(walletconnect.commands) == {"project", "create-keys", "rotate-keys"}
