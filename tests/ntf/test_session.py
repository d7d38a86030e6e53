"""What an agent and the server say to each other, over TLS."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import NtfRequest, refusal, token_status
from clarion.networks.simplex.server_identity import ServerIdentity
from clarion.networks.simplex.statuses import TokenStatus
from tests.ntf.agent import BLOCK, Answer, tls_context
from tests.ntf.conftest import Connect, Serve
from tests.ntf.handlers import Recording
from tests.simplex_wire import Cursor, padded, short

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


async def test_a_task_that_accepts_nothing_any_more_says_so(serve: Serve) -> None:
    server = (await serve()).task.server
    assert server.takes_connections
    assert server._accepting
    server._accepting.cancel()
    await asyncio.wait([server._accepting])
    assert not server.takes_connections


async def test_the_hello_names_the_session_of_tls_the_identity_of_the_address_and_a_key_that_the_leaf_has_signed(
    serve: Serve, connect: Connect, identity: ServerIdentity
) -> None:
    agent = await connect((await serve()).port)
    assert (agent.hello.lowest, agent.hello.highest) == (1, 3)
    assert agent.hello.session_id == agent.binding
    assert agent.identity == identity.fingerprint
    assert len(agent.chain) == 2
    assert len(agent.server_key()) == 32


async def test_each_session_has_a_key_of_its_own(serve: Serve, connect: Connect) -> None:
    running = await serve()
    first, second = await connect(running.port), await connect(running.port)
    assert first.server_key() != second.server_key()
    assert first.hello.session_id != second.hello.session_id


async def test_an_agent_without_alpn_is_offered_version_1_alone_and_no_key(serve: Serve, connect: Connect) -> None:
    running = await serve()
    agent = await connect(running.port, context=tls_context(alpn=False), version=1)
    assert (agent.hello.lowest, agent.hello.highest, agent.hello.rest) == (1, 1, b"")


async def test_in_version_1_each_transmission_names_the_session_and_has_a_block_of_its_own(
    serve: Serve, connect: Connect
) -> None:
    running = await serve()
    agent = await connect(running.port, version=1)
    named = b"\0" + short(agent.hello.session_id) + short(b"c") + short(b"")
    agent.socket.sendall(padded(named + b"PING", BLOCK))
    assert Cursor(await asyncio.to_thread(agent.read_block)).long() == named + b"PONG"


async def test_several_pings_of_one_block_are_answered_in_one(serve: Serve, connect: Connect) -> None:
    agent = await connect((await serve()).port)
    answers = await asyncio.to_thread(agent.ask, *map(agent.ping, (b"1", b"2", b"3")))
    assert answers == [Answer(name, b"", b"PONG") for name in (b"1", b"2", b"3")]


async def test_a_command_is_authorized_by_its_owners_signature_in_this_session_alone(
    serve: Serve, connect: Connect
) -> None:
    owners: list[Ed25519PublicKey] = []

    def answer(request: NtfRequest) -> bytes:
        allowed = request.is_authorized_by(owners[0])
        return token_status(TokenStatus.ACTIVE, request.session.version) if allowed else refusal(ErrorType.AUTH)

    running = await serve(Recording(answer))
    agent, other = await connect(running.port), await connect(running.port)
    owners.append(agent.key.public_key())
    command = agent.transmission(b"TCHK", correlation=b"c" * 24, entity=b"t" * 24)
    assert await asyncio.to_thread(agent.ask, command) == [Answer(b"c" * 24, b"t" * 24, b"TKN ACTIVE")]
    assert await asyncio.to_thread(other.ask, command) == [Answer(b"c" * 24, b"t" * 24, b"ERR AUTH")]


@pytest.mark.parametrize(("version", "expected"), [(3, b"f" * 32), (4, None), (0, None)])
async def test_who_expects_another_server_or_version_is_sent_away_without_an_answer(
    serve: Serve, connect: Connect, version: int, expected: bytes | None
) -> None:
    running = await serve()
    agent = await connect(running.port, version=version, expected=expected)
    with pytest.raises(EOFError):
        await asyncio.to_thread(agent.read_block)
    assert not running.handler.begun


async def test_a_block_that_is_none_is_answered_so_and_the_session_goes_on(serve: Serve, connect: Connect) -> None:
    agent = await connect((await serve()).port)
    agent.socket.sendall(b"\xff" * 512)
    assert await asyncio.to_thread(agent.answers, 1) == [Answer(b"", b"", b"ERR BLOCK")]
    assert await asyncio.to_thread(agent.ask, agent.ping(b"c")) == [Answer(b"c", b"", b"PONG")]


async def test_refusals_stand_beside_the_answers_of_their_block(serve: Serve, connect: Connect) -> None:
    agent = await connect((await serve()).port)
    unknown = agent.transmission(b"NOPE", correlation=b"1")
    long = agent.transmission(b"TCHK ", correlation=b"2", entity=b"e")
    answers = await asyncio.to_thread(agent.ask, unknown, long, agent.ping(b"3"))
    assert [answer.content for answer in answers] == [b"ERR CMD UNKNOWN", b"ERR CMD SYNTAX", b"PONG"]


async def test_commands_of_different_entities_wait_for_aws_together(serve: Serve, connect: Connect) -> None:
    running = await serve(handler := Recording())
    handler.gate.clear()
    agent = await connect(running.port)
    commands = [agent.transmission(b"TCHK", correlation=name, entity=name * 24) for name in (b"1", b"2", b"3")]
    agent.send(*commands)
    await running.until(lambda: handler.at_work == 3)
    handler.gate.set()
    assert len(await asyncio.to_thread(agent.answers, 3)) == 3


async def test_commands_of_one_entity_are_executed_in_their_order(serve: Serve, connect: Connect) -> None:
    running = await serve(handler := Recording())
    agent = await connect(running.port)
    commands = [agent.transmission(b"TCHK", correlation=name, entity=b"e" * 24) for name in (b"1", b"2", b"3")]
    await asyncio.to_thread(agent.ask, *commands)
    assert [request.transmission.correlation_id for request in handler.begun] == [b"1", b"2", b"3"]
    assert handler.most_at_work == 1


async def test_no_more_waits_for_an_agent_than_one_block(serve: Serve, connect: Connect) -> None:
    running = await serve(handler := Recording())
    handler.gate.clear()
    agent = await connect(running.port)
    for number in range(20):
        agent.send(agent.transmission(b"TCHK", correlation=bytes([number]), entity=b"e" * 24))
    await running.until(lambda: handler.at_work == 1)
    other = await connect(running.port)
    await asyncio.to_thread(other.ask, other.ping(b"c"))
    assert len(handler.begun) == 1
    handler.gate.set()
    assert len(await asyncio.to_thread(agent.answers, 20)) == 20


async def test_a_command_says_from_which_address_it_is(serve: Serve, connect: Connect) -> None:
    running = await serve(handler := Recording())
    agent = await connect(running.port)
    await asyncio.to_thread(agent.ask, agent.transmission(b"TCHK", correlation=b"c" * 24, entity=b"t" * 24))
    assert [request.session.peer for request in handler.begun] == ["127.0.0.1"]
