"""Whatever a node does is survived, counted, and kept out of the log, while another node is followed."""

import asyncio
import logging
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
import trustme
from h2.connection import H2Connection

from clarion.decisions import EnvelopeDecision
from clarion.metrics import Metric, decided
from clarion.networks import XMTP
from clarion.networks.xmtp.sender_hmac import PERIOD_S
from clarion.networks.xmtp.topics import MAX_TOPIC_SIZE
from local.tls import Localhost
from tests.ingest.conftest import node_faults
from tests.ingest.xmtp.conftest import MakeXmtpSettings
from tests.ingest.xmtp.nodes import (
    SECRET,
    BareNode,
    Behaviour,
    Context,
    GrpcNode,
    Peer,
    bare,
    envelope,
    speaking_http2,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.ingest.conftest import ReceivedQueue, Run

type AnyNode = GrpcNode | BareNode

MESSAGE_BYTES = 100_000
LIBRARYS_OWN_PATIENCE = 60
"""Seconds that gRPC waits for the answer to a ping by itself."""


async def ends_at_once(context: Context) -> None:
    return


def ends_with(code: grpc.StatusCode) -> Behaviour:
    async def behave(context: Context) -> None:
        await context.write(envelope("first"))
        await context.abort(code, SECRET)

    return behave


def fails(code: int) -> Behaviour:
    """Ends with a number that is no status."""

    async def behave(context: Context) -> None:
        context.set_code(code)  # type: ignore[arg-type] # that is the point
        context.set_details(SECRET)

    return behave


async def shows_garbage(context: Context) -> None:
    while True:
        await context.write(b"\xff" + SECRET.encode())


async def shows_empty_messages(context: Context) -> None:
    while True:
        await context.write(b"")


async def shows_too_large_a_message(context: Context) -> None:
    await context.write(envelope(SECRET * MESSAGE_BYTES))
    await asyncio.Event().wait()


async def shows_a_small_message_that_is_a_large_one(context: Context) -> None:
    context.set_compression(grpc.Compression.Gzip)
    await context.write(envelope("x" * 50_000_000))
    await asyncio.Event().wait()


async def begins_with_endless_headers(context: Context) -> None:
    await context.send_initial_metadata([("endless", SECRET * 50_000)])
    await asyncio.Event().wait()


async def begins_with_many_headers(context: Context) -> None:
    await context.send_initial_metadata([(f"header-{number}", SECRET) for number in range(2_000)])
    await asyncio.Event().wait()


async def ends_with_endless_headers(context: Context) -> None:
    context.set_trailing_metadata([("endless", SECRET * 50_000)])


async def is_silent(context: Context) -> None:
    await asyncio.Event().wait()


async def is_silent_after_its_headers(context: Context) -> None:
    await context.send_initial_metadata([("subscribed", "true")])
    await asyncio.Event().wait()


async def shows_one_envelope_again_and_again(context: Context) -> None:
    while True:
        await context.write(envelope("once more"))


BEHAVIOURS: dict[str, Behaviour] = {
    "ends at once": ends_at_once,
    **{f"ends with {code.name}": ends_with(code) for code in grpc.StatusCode if code is not grpc.StatusCode.OK},
    "ends with no status": fails(99),
    "shows garbage": shows_garbage,
    "shows empty messages": shows_empty_messages,
    "shows too large a message": shows_too_large_a_message,
    "shows a small message that is a large one": shows_a_small_message_that_is_a_large_one,
    "begins with endless headers": begins_with_endless_headers,
    "begins with many headers": begins_with_many_headers,
    "ends with endless headers": ends_with_endless_headers,
    "is silent": is_silent,
    "is silent after its headers": is_silent_after_its_headers,
    "shows more than its budget": shows_one_envelope_again_and_again,
}


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def speaks_another_protocol(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(f"HTTP/1.1 301 Moved\r\nLocation: https://{SECRET}\r\n\r\n".encode() * 100)
    await reader.read()


async def says_goodbye(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    """GOAWAY, with a text: https://www.rfc-editor.org/rfc/rfc9113#section-6.8"""
    http2.close_connection(error_code=11, additional_data=SECRET.encode(), last_stream_id=0)
    writer.write(http2.data_to_send())


async def says_nothing_more(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    http2.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
    writer.write(http2.data_to_send())


async def resets_the_stream(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    http2.reset_stream(1, error_code=8)
    writer.write(http2.data_to_send())


async def answers_with_a_page(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    http2.send_headers(1, [(":status", "200"), ("content-type", "text/html")])
    http2.send_data(1, SECRET.encode(), end_stream=True)
    writer.write(http2.data_to_send())


async def redirects(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    http2.send_headers(1, [(":status", "307"), ("location", f"https://example.org/{SECRET}")], end_stream=True)
    writer.write(http2.data_to_send())


async def never_ends_its_headers(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    """CONTINUATION frames without end: https://www.rfc-editor.org/rfc/rfc9113#section-6.10"""
    literal = b"\x00\x01x\x7f\x81\x7e" + bytes(16_000)
    for kind in (1, *(9,) * 10_000):
        writer.write(struct.pack(">I", len(literal))[1:] + bytes([kind, 0]) + struct.pack(">I", 1) + literal)
        await writer.drain()


async def breaks_off_within_a_message(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    http2.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
    http2.send_data(1, struct.pack(">BI", 0, 1_000) + b"half")
    writer.write(http2.data_to_send())
    await writer.drain()
    writer.transport.abort()


async def announces_a_message_that_is_too_large(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    http2.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
    http2.send_data(1, struct.pack(">BI", 0, 2**32 - 1) + b"the beginning")
    writer.write(http2.data_to_send())
    await writer.drain()


async def sends_garbage_for_frames(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    writer.write(SECRET.encode() * 1_000)
    await writer.drain()


WITHOUT_TLS: dict[str, Peer] = {
    "says nothing to a handshake": says_nothing,
    "hangs up": hangs_up,
    "speaks another protocol": speaks_another_protocol,
}
WITH_TLS: dict[str, Peer] = {
    "says nothing after a handshake": says_nothing,
    "hangs up after a handshake": hangs_up,
    "speaks another protocol after a handshake": speaks_another_protocol,
    **{
        behave.__name__.replace("_", " "): speaking_http2(behave)
        for behave in (
            says_goodbye,
            resets_the_stream,
            answers_with_a_page,
            redirects,
            never_ends_its_headers,
            breaks_off_within_a_message,
            announces_a_message_that_is_too_large,
            sends_garbage_for_frames,
        )
    },
}


@pytest.fixture(params=[*BEHAVIOURS, *WITHOUT_TLS, *WITH_TLS])
async def hostile_node(request: pytest.FixtureRequest, localhost: Localhost) -> AsyncIterator[AnyNode]:
    name = request.param
    node: AbstractAsyncContextManager[AnyNode]
    if name in BEHAVIOURS:
        node = GrpcNode(localhost.certificate_file, BEHAVIOURS[name])
    elif name in WITHOUT_TLS:
        node = bare(WITHOUT_TLS[name])
    else:
        node = bare(WITH_TLS[name], localhost.server_context())
    async with node as listening:
        yield listening


async def test_a_hostile_node_is_counted_and_left_while_another_is_followed(
    hostile_node: AnyNode,
    xmtp_node: GrpcNode,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("ingest.sources.xmtp.budget._PATIENCE_SECONDS", 0.2)
    bounds: dict[str, Any] = {"node_budgets": {XMTP: {"message_bytes": MESSAGE_BYTES, "bytes_per_second": 40_000}}}
    settings = xmtp_settings(hostile_node, xmtp_node, answer_seconds=0.3, quiet_seconds=0.3, **bounds)
    with caplog.at_level(logging.INFO):
        async with running(settings) as task:
            await xmtp_node.subscribed()
            while not (reasons := faults(caplog, hostile_node)):
                await asyncio.sleep(0.01)
            assert node_faults(task, XMTP) >= 1
            assert not task.counts[Metric.INTERNAL_ERRORS]
            while envelope("from an honest one") not in {message.raw for message in received.read()}:
                xmtp_node.show(envelope("from an honest one"))
                await asyncio.sleep(0.05)
    assert all(
        reason.replace("_", "").replace(":", "").replace(",", "").replace(" ", "").isalpha() for reason in reasons
    )
    assert SECRET not in str([vars(record) for record in caplog.records])


@pytest.mark.parametrize("seconds", [-(10**9), -86_000, 3_600, 3 * PERIOD_S])
async def test_a_node_with_a_false_time_hides_no_envelope_of_another_and_is_followed_on(
    seconds: int,
    xmtp_node: GrpcNode,
    certificate: Path,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
) -> None:
    async with GrpcNode(certificate) as hostile, running(xmtp_settings(hostile, xmtp_node)) as task:
        await hostile.subscribed()
        await xmtp_node.subscribed()
        hostile.show(*(envelope(f"{number}", later_s=seconds) for number in range(200)))
        while task.counts[Metric.ENVELOPES_MISTIMED] < 200:
            await asyncio.sleep(0.01)
        assert not task.seen.size
        xmtp_node.show(envelope("7"))
        hostile.show(envelope("with its true time"))
        await received.holds(2)
        assert not node_faults(task, XMTP)
    assert {message.raw for message in received.read()} == {envelope("7"), envelope("with its true time")}


async def test_an_envelope_is_taken_until_half_an_hour_is_left_of_its_life(
    xmtp_node: GrpcNode, running: "Run", received: "ReceivedQueue", xmtp_settings: MakeXmtpSettings, topic_rule: None
) -> None:
    shown = [envelope(f"{hours}", later_s=-3_600 * hours) for hours in (1, 12, 23)]
    async with running(xmtp_settings(xmtp_node)) as task:
        await xmtp_node.subscribed()
        xmtp_node.show(envelope("past", later_s=-24 * 3_600 + 1_800 - 60), *shown)
        await received.holds(3)
        assert task.counts[Metric.ENVELOPES_MISTIMED] == 1
    assert {message.raw for message in received.read()} == set(shown)


async def test_a_topic_too_long_for_any_rule_is_let_go_and_no_fault_of_the_node(
    xmtp_node: GrpcNode, running: "Run", xmtp_settings: MakeXmtpSettings, tables: None
) -> None:
    async with running(xmtp_settings(xmtp_node)) as task:
        await xmtp_node.subscribed()
        xmtp_node.show(*(envelope(f"{number}", "t" * (MAX_TOPIC_SIZE + 1)) for number in range(200)))
        while task.counts[decided(EnvelopeDecision.UNMATCHED)] < 200:
            await asyncio.sleep(0.01)
        assert not task.counts[decided(EnvelopeDecision.MALFORMED)]
        assert not node_faults(task, XMTP)


def faults(caplog: pytest.LogCaptureFixture, node: AnyNode) -> list[str]:
    """Why it was lost, each time."""
    lost = (vars(record) for record in caplog.records if record.message == "node lost")
    return [line["reason"] for line in lost if line["node"] == node.url]


@pytest.mark.parametrize("wrong", ["another authority", "another host"])
async def test_a_node_with_a_certificate_of_another_is_not_listened_to(
    wrong: str,
    tmp_path: Path,
    running: "Run",
    xmtp_settings: MakeXmtpSettings,
    tables: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    authority = theirs if wrong == "another authority" else ours
    name = "localhost" if wrong == "another authority" else "node.example"
    authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "node.pem"))
    ours.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with GrpcNode(tmp_path / "node.pem") as node:
        settings = xmtp_settings(node).model_copy(update={"ca_file": str(tmp_path / "ca.pem")})
        async with running(settings) as task:
            while node_faults(task, XMTP) < 2:
                await asyncio.sleep(0.01)
        assert not node.subscriptions
    assert set(faults(caplog, node)) == {"its certificate is not trusted"}


async def test_a_node_that_ends_its_connections_in_good_order_is_connected_anew(
    certificate: Path,
    running: "Run",
    received: "ReceivedQueue",
    xmtp_settings: MakeXmtpSettings,
    topic_rule: None,
) -> None:
    """By GOAWAY, as a server does that lets none grow old."""
    aged = [("grpc.max_connection_age_ms", 200), ("grpc.max_connection_age_grace_ms", 100)]
    async with GrpcNode(certificate, options=aged) as node, running(xmtp_settings(node)) as task:
        await node.subscribed(3)
        assert node_faults(task, XMTP) >= 2
        while not received.read():
            node.show(envelope("hello"))
            await asyncio.sleep(0.05)


async def says_goodbye_and_nothing_more(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    """Answers the subscription, and sends a GOAWAY that lets it go on; pings are answered no more."""
    http2.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
    http2.close_connection(last_stream_id=1)
    writer.write(http2.data_to_send())


async def says_nothing_at_all(http2: H2Connection, writer: asyncio.StreamWriter) -> None:
    return


@pytest.mark.parametrize("behave", [says_goodbye_and_nothing_more, says_nothing_more, says_nothing_at_all])
async def test_a_node_that_has_gone_without_a_word_is_noticed_by_its_pings(
    behave: Callable[[H2Connection, asyncio.StreamWriter], Awaitable[None]],
    localhost: Localhost,
    running: "Run",
    xmtp_settings: MakeXmtpSettings,
    tables: None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingest.sources.xmtp.connection._PING_MS", 200)
    monkeypatch.setattr("ingest.sources.xmtp.connection._PONG_MS", 300)
    async with (
        bare(speaking_http2(behave), localhost.server_context()) as gone,
        running(xmtp_settings(gone)) as task,
        asyncio.timeout(LIBRARYS_OWN_PATIENCE / 2),
    ):
        while not node_faults(task, XMTP):
            await asyncio.sleep(0.01)
        assert set(faults(caplog, gone)) == {"it ended the subscription, or a bound did: UNAVAILABLE"}


async def test_what_a_node_says_reaches_no_log_of_the_library(localhost: Localhost) -> None:
    """It writes to the process's standard error by itself."""
    program = """if True:
        import asyncio, sys
        from pathlib import Path
        from ingest.sources import SourceFault
        from ingest.sources.xmtp.connection import NodeAddress, subscribe
        import grpc

        async def main(port, ca):
            credentials = grpc.ssl_channel_credentials(Path(ca).read_bytes())
            address = NodeAddress(target=f"dns:///localhost:{port}", credentials=credentials)
            try:
                async with subscribe(address, message_bytes=1_000, seconds=60) as stream:
                    await stream.next()
            except SourceFault as fault:
                print(fault)

        asyncio.run(main(*sys.argv[1:]))
    """
    async with bare(speaking_http2(says_goodbye), localhost.server_context()) as node:
        arguments = (node.url.rpartition(":")[2], str(localhost.ca_file))
        ended = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        said, logged = await ended.communicate()
    assert (said.decode().rpartition(": ")[2], logged) == ("UNAVAILABLE\n", b"")
