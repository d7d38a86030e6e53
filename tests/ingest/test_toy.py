"""Ingest knows envelopes, keys and commands of any network: here of one that is nothing like statements."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from clarion.clock import now_ms
from clarion.messages import CommandMessage, EnvelopeMessage
from clarion.metrics import Metric
from clarion.networks import STATEMENTS, Command, Envelope, network
from clarion.networks.statements.codec import digest
from clarion.tables import RuleRow, rule_key
from ingest.delivery.destinations import CommandQueues
from ingest.delivery.outbox import BATCH_BYTES
from ingest.delivery.outgoing import OVERHEAD_BYTES
from ingest.sources import SOURCES
from ingest.wiring import AwsClients, NoCommandQueueError, wire
from tests.ingest import toy_source
from tests.ingest.conftest import MakeSettings, MakeStatement, node_faults
from tests.toy import NETWORK, TOY, Saying, key_of, say

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run

pytestmark = pytest.mark.usefixtures("toy_sources")

type Commands = Callable[[], list[CommandMessage]]


@pytest.fixture
def toy_sources(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, toy, "tests.ingest.toy_source")


@pytest.fixture
def toy_queue(aws: None, sdk: AwsClients) -> str:
    return sdk.sqs.create_queue(QueueName="toy-commands")["QueueUrl"]


@pytest.fixture
def commands(toy_queue: str, sdk: AwsClients) -> Commands:
    def read() -> list[CommandMessage]:
        found = sdk.sqs.receive_message(QueueUrl=toy_queue, MaxNumberOfMessages=10).get("Messages", [])
        return [CommandMessage.model_validate_json(one["Body"]) for one in found]

    return read


@pytest.fixture
def toy_settings(make_settings: MakeSettings, toy_queue: str) -> MakeSettings:
    def make(*nodes: "FakeNode", **others: object) -> object:
        networks = ("statements", TOY)
        return make_settings(*nodes, networks=networks, command_queues={TOY: toy_queue}, **others)

    return make  # type: ignore[return-value] # what `make_settings` makes


def write_rule(room: str) -> None:
    RuleRow("s", rule_key(1, key_of(room)), key=key_of(room)).save()


async def test_envelopes_of_two_networks_share_a_queue_and_each_is_forwarded_once(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    toy_settings: MakeSettings,
    make_statement: MakeStatement,
    rule: None,
) -> None:
    write_rule("hall")
    shown = [Saying(rooms=("attic", "hall"), text="hello", shown_at=at).to_raw() for at in (1, 2)]
    async with running(toy_settings(node)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].show(*shown, say("nobody asks for this", "cellar"))
        node.show(make_statement(1))
        await received.holds(2)
        while task.counts["envelope_unmatched"] < 1:
            await asyncio.sleep(0.01)
        assert task.counts[Metric.ENVELOPES_SKIPPED] == 1
    assert all(isinstance(message, EnvelopeMessage) for message in received.read())
    assert {message.network: message.raw for message in received.read()} == {
        "statements": make_statement(1),
        TOY: shown[0],
    }


async def test_a_rule_written_just_after_its_envelope_counts_in_any_network(
    node: "FakeNode", running: "Run", received: "ReceivedQueue", toy_settings: MakeSettings, rule: None
) -> None:
    async with running(toy_settings(node, rule_lag_seconds=5)):
        await node.subscribed()
        toy_source.OPENED[-1].show(say("early", "hall"))
        write_rule("hall")
        [message] = await received.holds(1)
    assert message.raw == say("early", "hall")


async def test_a_source_that_shows_garbage_alone_is_at_fault(
    node: "FakeNode", running: "Run", toy_settings: MakeSettings, rule: None
) -> None:
    async with running(toy_settings(node)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].show(*(b"garbage",) * 101)
        while not node_faults(task, TOY):
            await asyncio.sleep(0.01)
        assert task.counts["envelope_malformed"] == 101


class Bug:
    """Fails as no network may, on what says so; its text quotes all that was shown."""

    def __init__(self, method: Callable[..., object]) -> None:
        self._method = method

    def __call__(self, found: bytes | Envelope) -> object:
        if "a bug" in str(found):
            raise KeyError(f"{found!r}")
        return self._method(found)


@pytest.mark.parametrize("method", ["decode", "verify"])
async def test_a_bug_in_one_network_costs_the_envelope_that_meets_it(
    method: str,
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    toy_settings: MakeSettings,
    make_statement: MakeStatement,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rule: None,
) -> None:
    write_rule("hall")
    monkeypatch.setattr(NETWORK, method, Bug(getattr(NETWORK, method)))
    monkeypatch.setattr("ingest.intake.VERIFIED_SHARE", 1.1)
    async with running(toy_settings(node)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].show(*(say(f"a bug {number}", "hall") for number in range(200)), say("fine", "hall"))
        node.show(make_statement(1))
        await received.holds(2)
        assert task.counts[Metric.INTERNAL_ERRORS] == 200
        assert task.counts["envelope_malformed"] == 200
        assert not node_faults(task, TOY)
    assert {message.raw for message in received.read()} == {say("fine", "hall"), make_statement(1)}
    (line,) = (record for record in caplog.records if record.message == "internal error")
    assert "hall" not in str(vars(line))


async def test_a_network_whose_senders_choose_ids_hides_no_envelope_of_another(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    toy_settings: MakeSettings,
    make_statement: MakeStatement,
    monkeypatch: pytest.MonkeyPatch,
    rule: None,
) -> None:
    chosen = digest(make_statement(1))
    decode = NETWORK.decode
    monkeypatch.setattr(NETWORK, "decode", lambda raw: decode(raw)._replace(id=chosen))
    async with running(toy_settings(node)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].show(say("first", "hall"))
        while not task.status()["seen"]:
            await asyncio.sleep(0.01)
        node.show(make_statement(1))
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


@pytest.mark.parametrize("method", ["decode", "verify"])
async def test_a_bug_that_a_late_rule_brings_up_stops_no_network(
    method: str,
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    toy_settings: MakeSettings,
    make_statement: MakeStatement,
    monkeypatch: pytest.MonkeyPatch,
    rule: None,
) -> None:
    """Then nothing of the source's is at work."""
    async with running(toy_settings(node, rule_lag_seconds=5)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].show(say("a bug", "hall"))
        while not task.unmatched:
            await asyncio.sleep(0.01)
        monkeypatch.setattr(NETWORK, method, Bug(getattr(NETWORK, method)))
        monkeypatch.setattr("ingest.intake.VERIFIED_SHARE", 1.1)
        write_rule("hall")
        while not task.counts[Metric.INTERNAL_ERRORS]:
            await asyncio.sleep(0.01)
        node.show(make_statement(1))
        await received.holds(1)
    assert received.statements() == [make_statement(1)]


async def test_the_sources_of_a_network_that_fail_are_followed_again(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    toy_settings: MakeSettings,
    make_statement: MakeStatement,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rule: None,
) -> None:
    write_rule("hall")
    monkeypatch.setattr("ingest.sources.FAILED_SECONDS", 0.05)
    async with running(toy_settings(node)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].fail()
        while not task.counts[Metric.INTERNAL_ERRORS]:
            await asyncio.sleep(0.01)
        node.show(make_statement(1))
        await received.holds(1)
        toy_source.OPENED[-1].show(say("again", "hall"))
        await received.holds(2)
        assert task.counts[Metric.INTERNAL_ERRORS] == 1
    (line,) = (record for record in caplog.records if record.message == "sources failed")
    assert vars(line)["network"] == TOY
    assert toy_source.SECRET not in str(vars(line))


async def test_a_command_goes_to_the_queue_of_its_network(
    node: "FakeNode", running: "Run", received: "ReceivedQueue", toy_settings: MakeSettings, commands: Commands
) -> None:
    async with running(toy_settings(node)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].show(Command(TOY, b"\xff end"), Command(TOY, b"another"))
        found: list[CommandMessage] = []
        while len(found) < 2:
            found += await asyncio.to_thread(commands)
        while task.status()["held"]:
            await asyncio.sleep(0.01)
    assert {(one.network, one.content) for one in found} == {(TOY, b"\xff end"), (TOY, b"another")}
    assert received.read() == []


async def test_a_command_that_no_message_can_hold_is_a_fault_of_its_source(
    node: "FakeNode", running: "Run", toy_settings: MakeSettings, commands: Commands
) -> None:
    largest = (BATCH_BYTES - OVERHEAD_BYTES) // 4 * 3
    async with running(toy_settings(node)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].show(Command(TOY, bytes(largest + 1)), Command(TOY, bytes(largest)))
        found: list[CommandMessage] = []
        while not found:
            found += await asyncio.to_thread(commands)
        assert node_faults(task, TOY) == 1
    assert [len(one.content) for one in found] == [largest]


async def test_a_queue_of_commands_that_refuses_delays_no_envelope_and_no_handing_over(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    toy_settings: MakeSettings,
    toy_queue: str,
    make_statement: MakeStatement,
    sdk: AwsClients,
    rule: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.delivery.outboxes.BRIEF_DRAIN_SECONDS", 0.5)
    monkeypatch.setattr("ingest.task.DRAIN_SECONDS", 3_600)  # for longer than `running` may take
    sdk.sqs.delete_queue(QueueUrl=toy_queue)
    async with running(toy_settings(node, answer_seconds=1)) as task:
        await node.subscribed()
        toy_source.OPENED[-1].show(Command(TOY, b"refused"))
        while not task.status()["held"]:
            await asyncio.sleep(0.01)
        refused_at = now_ms()
        while task.sharing.progress.delivered_through <= refused_at:
            node.show(make_statement(0))
            toy_source.OPENED[-1].show(say("the watermark advances", "hall"))
            await asyncio.sleep(0.05)
        assert task.status()["lag_ms"]
        node.show(make_statement(1))
        while make_statement(1) not in received.statements():
            await asyncio.sleep(0.01)


def test_no_commands_at_all_are_sent_without_a_request(sdk: AwsClients) -> None:
    assert CommandQueues(sdk.sqs, {}).send([]) == []


async def test_sigterm_waits_for_commands_to_be_taken(
    node: "FakeNode", running: "Run", toy_settings: MakeSettings, commands: Commands
) -> None:
    async with running(toy_settings(node)) as task:
        while not task.status()["shards"]:
            await asyncio.sleep(0.01)
        toy_source.OPENED[-1].show(*(Command(TOY, bytes([number])) for number in range(5)))
        while task.status()["held"] != 5:
            await asyncio.sleep(0)
    assert len(commands()) == 5


async def test_a_source_without_replays_is_waited_for_by_nobody_and_forgotten_by_no_other_networks_replay(
    node: "FakeNode",
    running: "Run",
    toy_settings: MakeSettings,
    make_statement: MakeStatement,
    rule: None,
) -> None:
    node.stored = [make_statement(number) for number in range(10)]
    settings = toy_settings(node, watch_seconds=0.05, renew_seconds=0.1, forget_seconds=0.01)
    async with running(settings) as task:
        while task.status()["seen"] != 10:
            await asyncio.sleep(0.01)
        toy_source.OPENED[-1].show(say("shown once", "hall"))
        while task.status()["seen"] != 11:
            await asyncio.sleep(0.01)
        del node.stored[5:]
        while task.seen.size > 6:
            await asyncio.sleep(0.01)
        del node.stored[3:]
        while task.seen.size > 4:
            await asyncio.sleep(0.01)
        while task.unmatched:
            await asyncio.sleep(0.01)
    async with running(settings) as task:
        await node.subscribed()
        for left in (2, 1):
            del node.stored[left:]
            while task.seen.count_of(network(STATEMENTS).number) > left:
                await asyncio.sleep(0.01)
        assert task.seen.count_of(network(TOY).number) == 1


def test_a_network_with_commands_but_without_their_queue_stops_the_start(
    node: "FakeNode", make_settings: MakeSettings, clients: AwsClients
) -> None:
    with pytest.raises(NoCommandQueueError, match=TOY):
        wire(make_settings(node, networks=(TOY,)), clients)


def test_only_the_sources_of_enabled_networks_are_imported() -> None:
    program = """if True:
        import sys
        import ingest.wiring
        assert not [name for name in sys.modules if name.startswith(("ingest.sources.statements", "clarion.networks.s"))]
        from ingest.sources import source_spec
        source_spec("statements")
        assert "ingest.sources.statements.source" in sys.modules
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
