import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingest.sources import SourceFault
from ingest.sources.statements.protocol import MAX_STORE_STATEMENTS, Origin, RpcAnswer, Shown, read, request


def frame(result: object, method: str = "statement_statement") -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": {"subscription": 7, "result": result}})


def current(**data: object) -> str:
    return frame({"event": "newStatements", "data": data})


def draft(**result: object) -> str:
    return frame(result, "statement_unstable_subscribeEvent")


def test_a_request_is_json_rpc() -> None:
    assert json.loads(request(3, "statement_subscribeStatement", "any")) == {
        "jsonrpc": "2.0",
        "id": 3,
        "method": "statement_subscribeStatement",
        "params": ["any"],
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param(current(statements=["0x0102"]), Shown([b"\1\2"], Origin.LIVE), id="current, live"),
        pytest.param(
            current(statements=["0x01", "0x02"], remaining=5),
            Shown([b"\1", b"\2"], Origin.REPLAY, remaining=5),
            id="current, replay",
        ),
        pytest.param(
            current(statements=[], remaining=0),
            Shown([], Origin.REPLAY, remaining=0, replay_done=True),
            id="current, replay over",
        ),
        pytest.param(current(statements=["0x01"], remaining=None), Shown([b"\1"], Origin.LIVE), id="null is absent"),
        pytest.param(frame("0x01"), Shown([b"\1"], Origin.UNKNOWN), id="older"),
        pytest.param(
            draft(event="replayStatements", filterId="f", statements=["0x01"]),
            Shown([b"\1"], Origin.REPLAY),
            id="draft, replay",
        ),
        pytest.param(
            draft(event="replayDone", filterId="f"), Shown([], Origin.REPLAY, replay_done=True), id="draft, replay over"
        ),
        pytest.param(
            draft(event="newStatements", statements=[{"statement": "0x01", "filterIds": ["f"]}]),
            Shown([b"\1"], Origin.LIVE),
            id="draft, live",
        ),
    ],
)
def test_each_generation_of_the_protocol_says_what_is_replayed_and_what_is_live(text: str, shown: Shown) -> None:
    assert read(text.encode()) == shown


@pytest.mark.parametrize("bad", ["0x0", "0xzz", "0x01 02", 5, None, ["0x01"], {"statement": "0x01"}])
def test_a_statement_that_is_no_hex_is_counted_and_its_neighbours_are_kept(bad: object) -> None:
    assert read(current(statements=["0x01", bad, "0x02"]).encode()) == Shown([b"\1", b"\2"], Origin.LIVE, unreadable=1)


def test_an_answer_carries_the_id_and_whatever_the_node_chose() -> None:
    assert read(b'{"jsonrpc":"2.0","id":2,"result":{"methods":[]}}') == RpcAnswer(2, {"methods": []})


def test_an_error_that_is_null_is_none() -> None:
    assert read(b'{"jsonrpc":"2.0","id":2,"result":"subscription","error":null}') == RpcAnswer(2, "subscription")


def test_a_notification_of_another_method_is_passed_over() -> None:
    assert read(b'{"jsonrpc":"2.0","method":"chain_newHead","params":{}}') is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        b"\xff\xfe\x00",
        "[" * 100_000,
        "[]",
        "7",
        "{}",
        '{"id":1,"error":{"code":-32601,"message":"Method not found"}}',
        '{"method":"statement_statement"}',
        '{"method":"statement_statement","params":[]}',
        frame(None),
        frame([]),
        frame({"event": "surprise"}),
        frame({"event": {"newStatements": 1}}),
        current(),
        current(statements="0x01"),
        current(statements=None, remaining=0),
        current(statements=[], remaining=-1),
        current(statements=[], remaining="0"),
        current(statements=[], remaining=False),
        current(statements=[], remaining=0.0),
        current(statements=[], remaining=MAX_STORE_STATEMENTS + 1),
        frame({"event": "newStatements", "data": []}),
        draft(event="replayStatements", statements={}),
        draft(event="stop"),
    ],
)
def test_whatever_else_a_node_says_is_its_fault(text: str | bytes) -> None:
    with pytest.raises(SourceFault):
        read(text if isinstance(text, bytes) else text.encode())


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["method", "params", "result", "event", "data", "statements", "remaining", "id"]), inner
        )
    ),
    max_leaves=12,
)


@given(json_values.map(json.dumps) | st.text(max_size=40) | st.binary(max_size=40))
@example('{"method": []}')
@example('{"method": {}}')
def test_no_frame_raises_anything_but_a_fault(text: str | bytes) -> None:
    try:
        said = read(text if isinstance(text, bytes) else text.encode())
    except SourceFault:
        return
    assert said is None or isinstance(said, Shown | RpcAnswer)
