"""The operator's command line against the deployed stack, each command as an operator would give it."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import pytest_asyncio

from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements import codec
from clarion.networks.statements.payload import StatementBody
from console import explain
from infra.environments import EMULATOR
from local.device import Device, topic_of
from local.run import guide
from local.system import PATIENCE, System, whole_lines
from tests.page.listening import first_events

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
LOOKING = PAGE.with_name("examples") / "operator-look.json"
READING = re.compile(r"[a-z0-9]+:(?:BatchGet|Describe|Get|List|Query|Scan)")
CLARION = Path(sys.executable).with_name("clarion")
TOPIC = topic_of("asked about by an operator")
TOKEN = "c0" * 32
WAY = ["observed", "matched", "queued", "delivered"]
"""Of a statement that is pushed."""


class Ended(NamedTuple):
    code: int
    printed: Any
    progress: str


type Operator = Callable[..., Awaitable[Ended]]


@pytest.fixture(scope="module")
def clarion(system: System) -> Operator:
    """Runs a command as somebody who may do what the page says and no more; what it prints is read as JSON."""
    keys: dict[str, dict[str, str]] = {}

    async def clarion(command: str, *words: str) -> Ended:
        if command not in keys:
            keys[command] = await asyncio.to_thread(_keys, system, command)
        variables = system.deployment.emulator.variables | keys[command] | {explain.COMMAND: "/nowhere"}
        done = await asyncio.to_thread(_run, [str(CLARION), command, *words, "--json"], variables)
        assert TOKEN not in done.stdout + done.stderr
        return Ended(done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr)

    return clarion


def _run(command: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)


def _keys(system: System, command: str) -> dict[str, str]:
    """By what the page grants the command."""
    may = {"Effect": "Allow", "Action": _actions(command), "Resource": "*"}
    return _keys_of(system, command, _policy(may))


def _keys_of(system: System, name: str, policy: str) -> dict[str, str]:
    iam, sts = system.client("iam"), system.client("sts")
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
    role = iam.create_role(RoleName=f"operator-{name}", AssumeRolePolicyDocument=_policy(trust))["Role"]
    iam.put_role_policy(RoleName=role["RoleName"], PolicyName="all", PolicyDocument=policy)
    made = sts.assume_role(RoleArn=role["Arn"], RoleSessionName=name)["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": made["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"],
        "AWS_SESSION_TOKEN": made["SessionToken"],
    }


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _actions(command: str) -> list[str]:
    """What the page grants the command; the emulator asks for a right to each batch besides."""
    section = PAGE.read_text().partition("### What an operator may do")[2].partition("\n## ")[0]
    introduction, _, rest = section.partition("\n| ")
    lines = rest.partition("\n\n")[0].split("\n| ")
    rows = {name: line for line in lines for name in re.findall(r"`([a-z-]+)`", line.partition("|")[0])}
    row = rows[command] + "".join(rows[other] for other in re.findall(r"as `([a-z-]+)`", rows[command]))
    actions = re.findall(r"`([a-z0-9]+:[A-Za-z]+)`", introduction + row)
    return [f"{action}*" if action.startswith("sqs:") else action for action in actions]


async def test_what_make_run_prints_leads_the_command_line_to_the_emulator(system: System) -> None:
    [exports] = re.findall(r"^ *export (AWS_.*)$", guide(system), re.MULTILINE)
    variables = dict(pair.split("=", 1) for pair in exports.split())

    done = await asyncio.to_thread(_run, [str(CLARION), "status", "--json"], variables)

    assert json.loads(done.stdout)["stage"] == EMULATOR.stage


class AskedAbout(NamedTuple):
    raw: bytes
    receiver: Device


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def asked_about(system: System) -> AskedAbout:
    """A statement that was pushed."""
    alice, bob = Device("Alice, asked about"), Device("Bob, asking why")
    await system.register(bob, "apns", TOKEN, (alice.public_key, TOPIC))
    raw = alice.statement(TOPIC, data=b"did it arrive?")
    await system.store.inject(raw)
    await system.push_of(raw)
    return AskedAbout(raw, bob)


async def test_why_tells_a_statements_way_to_the_phone(asked_about: AskedAbout, clarion: Operator) -> None:
    raw, bob = asked_about
    whats: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while not set(WAY) <= set(whats):  # what comes to the lake first is not what happened first
            digits = codec.digest(raw).hex()
            ended = await clarion("why", "--statement", digits, "--client", bob.public_key.hex())
            whats = [step["what"] for trace in ended.printed["traces"] for step in trace["steps"]]

    assert (ended.code, whats) == (0, WAY)


@pytest.mark.usefixtures("asked_about")
async def test_page_shows_a_statements_way_to_who_may_see_status_and_why(system: System) -> None:
    events = await _events_of_page(system, await asyncio.to_thread(_keys, system, "page"))
    assert all(item["marks"] for item in events["items"])
    assert events["status"]["stage"] == EMULATOR.stage


@pytest.mark.usefixtures("asked_about")
async def test_page_needs_no_more_than_the_example_of_a_policy_for_who_looks_and_changes_nothing(
    system: System,
) -> None:
    """On the very resources that it names, of another stage."""
    example = LOOKING.read_text().replace("clarion-prod", EMULATOR.prefix.removesuffix("-"))
    await _events_of_page(system, await asyncio.to_thread(_keys_of, system, "look", example))
    asked = [json.loads(line) for line in whole_lines(system.deployment.emulator.permissions_log)]
    looked = [each for each in asked if each["role"] == "operator-look"]
    assert {"s3:ListBucket", "s3:GetObject", "cloudwatch:GetMetricData"} <= {each["action"] for each in looked}
    assert [each for each in looked if not each["allowed"]] == []
    assert [each for each in looked if not READING.match(each["action"])] == []


async def _events_of_page(system: System, keys: dict[str, str]) -> dict[str, Any]:
    """What the page begins with; a reading that fails for want of a right would be a fault."""
    variables = system.deployment.emulator.variables | keys
    process = await asyncio.create_subprocess_exec(CLARION, "page", "--json", env=variables, stdout=subprocess.PIPE)
    try:
        async with asyncio.timeout(PATIENCE):
            return await first_events(await _address(process), {"items", "lake", "status"})
    finally:
        process.terminate()
        await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stdout
    printed = await process.stdout.readuntil(b"}\n")
    return str(json.loads(printed)["address"])


async def test_status_sees_ingest_at_work_and_the_queues(clarion: Operator) -> None:
    ended = await clarion("status")

    assert (ended.printed["stage"], len(ended.printed["tasks"])) == ("local", 1)
    assert [queue["name"] for queue in ended.printed["queues"]] == [
        "envelopes",
        "pages",
        *Channel,
        "xmtp-commands",
        "walletconnect-commands",
        "simplex-commands",
        "cleanup",
        "deliveries",
        "late-events",
    ]


async def test_the_doctor_finds_the_secrets_good_and_asks_the_providers(system: System, clarion: Operator) -> None:
    before = system.fcm.received.count

    ended = await clarion("doctor", "--try-providers")

    todos = {check["name"]: check["todo"] for check in ended.printed["checks"]}
    secrets = [
        f"secret clarion-local-{name}"
        for name in ("apns", "fcm", "jwt", "walletconnect-server", "webhook", "webpush", "zulip-bouncer")
    ]
    assert sorted(name for name in todos if name.startswith("secret")) == secrets
    assert {todos[name] for name in (*secrets, "apns for app first", "fcm for app first")} == {None}
    assert system.fcm.received.count == before


async def test_a_test_push_takes_the_live_way_to_the_provider(system: System, clarion: Operator) -> None:
    before = system.fcm.received.count

    ended = await clarion("send-test", f"test-{TOKEN}", "--channel", "fcm", "--yes")

    assert (ended.code, ended.printed["decision"], ended.printed["status"]) == (0, "delivered", 200)
    assert system.fcm.received.count > before


async def test_a_muted_channels_messages_wait_until_it_is_unmuted(system: System, clarion: Operator) -> None:
    sqs, url = system.client("sqs"), system.queue_urls["voip"]
    late = _push("voip", expires_at=1)
    try:
        muted = await clarion("mute", "voip", "--yes")
        await asyncio.to_thread(sqs.send_message, QueueUrl=url, MessageBody=late.to_json())
        refused = await clarion("send-test", TOKEN, "--channel", "voip", "--yes")
        seen = await clarion("status")
    finally:
        unmuted = await clarion("unmute", "voip", "--yes")

    assert (muted.printed["muted"], unmuted.printed["muted"], unmuted.printed["waiting"]) == (True, False, 1)
    assert refused.code == 3
    assert (seen.code, [queue["name"] for queue in seen.printed["queues"] if queue["muted"]]) == (1, ["voip"])
    assert await decided(system, late) == "stale"


async def test_a_dead_letter_is_redriven_and_handled(system: System, clarion: Operator) -> None:
    sqs, url = system.client("sqs"), system.queue_urls["apns-dead"]
    unwanted = _push("apns", expires_at=2**32 - 1)
    await asyncio.to_thread(sqs.send_message, QueueUrl=url, MessageBody=unwanted.to_json())

    counted = await clarion("redrive", "apns", "--dry-run")
    ended = await clarion("redrive", "apns", "--yes")

    assert (counted.code, counted.printed["moved"]) == (1, 0)
    assert ended.printed["moved"] == counted.printed["left"] >= 1
    assert await decided(system, unwanted) == "subscription_gone"


async def test_the_rules_are_exported(system: System, clarion: Operator) -> None:
    alice, bob = Device("Alice, exported"), Device("Bob, exported")
    await system.register(bob, "apns", "c1" * 32, (alice.public_key, TOPIC))

    ended = await clarion("export-rules", "--client", bob.public_key.hex())

    assert (ended.printed["rule"]["sender"], ended.printed["rule"]["topic"]) == (alice.public_key.hex(), TOPIC.hex())


async def decided(system: System, push: PushMessage) -> str | None:
    """What the lake says of the push."""
    async for events in system.lake.growing(PATIENCE):
        for event in events:
            if event["event"] == "push" and event["receipt"] == str(push.receipt):
                return str(event["decision"])
    return None


def _push(channel: str, expires_at: int) -> PushMessage:
    """Of a subscription that there is not."""
    return PushMessage(
        network=STATEMENTS,
        receipt=uuid4(),
        observed_at=0,
        envelope_id=bytes(32),
        subscription_id=uuid4(),
        client_id=bytes(32),
        channel=Channel(channel),
        body=StatementBody(sender=bytes(32), topic=TOPIC),
        expires_at=expires_at,
    )
