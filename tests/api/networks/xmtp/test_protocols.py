import gzip
import json
import zlib
from base64 import b64decode, b64encode, urlsafe_b64encode
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.networks.xmtp.codecs import Codec
from api.networks.xmtp.codes import _CODES, CallCode, CallError
from api.networks.xmtp.limits import MOST_KEYS
from api.networks.xmtp.notifications_pb2 import SubscribeRequest, SubscribeWithMetadataRequest
from api.networks.xmtp.protocols import COMPRESSED, MEDIA_TYPES, TRAILERS, CallProtocol, frame, only_frame, protocol_of
from api.problems import ProblemKind
from api.settings import MOST_RULES

LIMIT = 10_000
WEB = [name for name in MEDIA_TYPES if name.startswith("application/grpc-web")]


def of(media_type: str) -> CallProtocol:
    found = protocol_of(media_type)
    assert found
    return found


def sent(media_type: str, message: bytes, *, compressed: bool = False) -> tuple[dict[str, str], bytes]:
    """Headers and body of a call, as a client makes them."""
    if not media_type.startswith("application/grpc-web"):
        return ({"content-encoding": "gzip"}, gzip.compress(message)) if compressed else ({}, message)
    body = frame(COMPRESSED, gzip.compress(message)) if compressed else frame(0, message)
    return {"grpc-encoding": "gzip"}, b64encode(body) if "-text" in media_type else body


def frames(body: bytes) -> list[tuple[int, bytes]]:
    """Undo the framing of an answer, by a reader of its own."""
    found = []
    while body:
        end = 5 + int.from_bytes(body[1:5])
        found.append((body[0], body[5:end]))
        body = body[end:]
    return found


@given(st.sampled_from(MEDIA_TYPES), st.binary(max_size=LIMIT), st.booleans())
def test_a_message_comes_out_as_it_was_sent(media_type: str, message: bytes, compressed: bool) -> None:
    headers, body = sent(media_type, message, compressed=compressed)
    assert of(media_type).message(headers, body, LIMIT) == message


@given(st.sampled_from(WEB), st.binary(max_size=200))
def test_an_answer_is_one_frame_and_the_trailers(media_type: str, message: bytes) -> None:
    status, answered, body, _ = of(media_type).answer(message)
    assert (status, answered) == (200, media_type)
    plain = b64decode(body) if "-text" in media_type else body
    assert frames(plain) == [(0, message), (TRAILERS, b"grpc-status: 0\r\n")]


@given(st.sampled_from(WEB), st.sampled_from(CallCode), st.text(min_size=1))
def test_a_refusal_is_trailers_of_printable_ascii(media_type: str, code: CallCode, text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    _, _, body, _ = of(media_type).refusal(CallError(code, text))
    [(flags, trailers)] = frames(b64decode(body) if "-text" in media_type else body)
    status, message, end = trailers.decode("ascii").split("\r\n")
    assert (flags, status, end) == (TRAILERS, f"grpc-status: {code.number}", "")
    assert message.isprintable()
    assert unquote(message.removeprefix("grpc-message: "), errors="strict") == text


@given(st.sampled_from(MEDIA_TYPES), st.binary(max_size=100), st.sampled_from(["", "gzip", "identity", "br"]))
def test_any_bytes_are_a_message_or_a_refusal(media_type: str, body: bytes, encoding: str) -> None:
    headers = {"content-encoding": encoding, "grpc-encoding": encoding}
    protocol = of(media_type)
    try:
        message = protocol.message(headers, body, LIMIT)
        assert len(message) <= LIMIT
        protocol.codec.read(message, SubscribeWithMetadataRequest)
    except CallError as error:
        assert error.code in {CallCode.INVALID_ARGUMENT, CallCode.UNIMPLEMENTED}  # noqa: PT017 - either is right


@given(st.binary(max_size=200), st.integers(0, 255), st.data())
def test_a_frame_that_is_cut_or_has_something_after_it_is_refused(data: bytes, flags: int, draw: st.DataObject) -> None:
    whole = frame(flags, data)
    assert only_frame(whole) == (flags, data)
    with pytest.raises(CallError):
        only_frame(whole[: draw.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(CallError):
        only_frame(whole + draw.draw(st.binary(min_size=1, max_size=9)))


@pytest.mark.parametrize("media_type", MEDIA_TYPES)
def test_what_expands_to_more_than_the_limit_is_refused_without_being_expanded(media_type: str) -> None:
    headers, body = sent(media_type, bytes(LIMIT), compressed=True)
    assert of(media_type).message(headers, body, LIMIT) == bytes(LIMIT)
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join([bomb.compress(bytes(1 << 20)) for _ in range(64)]) + bomb.flush()
    web = media_type in WEB
    framed = frame(COMPRESSED, packed) if web else packed
    with pytest.raises(CallError) as refused:
        of(media_type).message(headers, b64encode(framed) if "-text" in media_type else framed, LIMIT)
    assert refused.value.code is CallCode.RESOURCE_EXHAUSTED


WHOLE = gzip.compress(b"x" * 99, mtime=0)
BROKEN = {
    "cut off": WHOLE[:-1],
    "with something after it": WHOLE + b"y",
    "twice": WHOLE * 2,
    "no gzip": b"x",
    "a beginning": WHOLE[:2],
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_gzip_that_is_not_one_whole_stream_is_refused(broken: bytes) -> None:
    with pytest.raises(CallError) as refused:
        of("application/proto").message({"content-encoding": "gzip"}, broken, LIMIT)
    assert refused.value.code is CallCode.INVALID_ARGUMENT


@pytest.mark.parametrize("media_type", MEDIA_TYPES)
def test_another_compression_is_unimplemented(media_type: str) -> None:
    headers = {"content-encoding": "br", "grpc-encoding": "br"}
    framed = frame(COMPRESSED, b"x") if media_type in WEB else b"x"
    with pytest.raises(CallError) as refused:
        of(media_type).message(headers, b64encode(framed) if "-text" in media_type else framed, LIMIT)
    assert refused.value.code is CallCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("media_type", "name", "value", "seconds"),
    [
        ("application/json", "connect-timeout-ms", "1500", 1.5),
        ("application/proto", "connect-timeout-ms", "0", 0),
        ("application/json", "grpc-timeout", "1S", None),
        ("application/grpc-web", "grpc-timeout", "2S", 2),
        ("application/grpc-web-text", "grpc-timeout", "250m", 0.25),
        ("application/grpc-web+proto", "grpc-timeout", "1H", 3600),
        ("application/grpc-web+proto", "connect-timeout-ms", "1", None),
    ],
)
def test_each_protocol_has_its_own_timeout(media_type: str, name: str, value: str, seconds: float | None) -> None:
    assert of(media_type).seconds({name: value}) == seconds


@pytest.mark.parametrize("value", ["", "-1", "1.5", "12345678901", "1 ", "\u0661", "1s", "+1"])
@pytest.mark.parametrize(
    ("media_type", "name"), [("application/json", "connect-timeout-ms"), ("application/grpc-web", "grpc-timeout")]
)
def test_a_timeout_that_is_none_is_refused(media_type: str, name: str, value: str) -> None:
    with pytest.raises(CallError) as refused:
        of(media_type).seconds({name: value})
    assert refused.value.code is CallCode.INVALID_ARGUMENT


@pytest.mark.parametrize("name", ["Application/JSON; charset=UTF-8", " application/proto ", "application/grpc-web;x=y"])
def test_a_media_type_is_known_in_any_case_and_with_parameters(name: str) -> None:
    assert protocol_of(name)


@pytest.mark.parametrize(
    "name",
    ["", "text/plain", "application/grpc", "application/grpc+proto", "application/connect+json", "application/connect"],
)
def test_streams_and_plain_grpc_are_not_spoken(name: str) -> None:
    assert protocol_of(name) is None


def test_the_version_of_the_protocol_may_be_left_out_but_not_another() -> None:
    connect = of("application/json")
    assert (
        connect.message({}, b"{}", LIMIT) == connect.message({"connect-protocol-version": "1"}, b"{}", LIMIT) == b"{}"
    )
    with pytest.raises(CallError):
        connect.message({"connect-protocol-version": "2"}, b"{}", LIMIT)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=5))
def test_json_and_protobuf_mean_the_same(topics: list[str]) -> None:
    message = SubscribeRequest(installation_id="i", topics=topics)
    for codec in Codec:
        assert codec.read(codec.write(message), SubscribeRequest) == message


def test_json_takes_both_spellings_and_passes_over_what_it_does_not_know() -> None:
    camel = b'{"installationId":"i","topics":["t"],"later":[{}],"more":{"x":1}}'
    snake = b'{"installation_id":"i","topics":["t"]}'
    assert Codec.JSON.read(camel, SubscribeRequest) == Codec.JSON.read(snake, SubscribeRequest)
    assert Codec.JSON.read(b"", SubscribeRequest) == SubscribeRequest()


def test_unknown_fields_of_protobuf_are_passed_over() -> None:
    known = SubscribeRequest(installation_id="i")
    assert Codec.PROTO.read(known.SerializeToString() + b"\xba\x3e\x01x", SubscribeRequest).installation_id == "i"


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b"null",
        b'"secret-of-mine"',
        b"{",
        b"\xff",
        b'{"topics":"secret-of-mine"}',
        b'{"topics":[{"a":"secret-of-mine"}]}',
        b'{"installationId":"\\ud800"}',
        b'{"\\ud800":1}',
        b'{"\xed\xa0\x80":1}',
        b'{"installationId":' + b"9" * 5000 + b"}",
        b'{"x":' * 100_000,
        b'{"topics":' + b"[" * 100_000,
    ],
)
def test_json_that_is_no_such_message_is_refused_without_being_quoted(raw: bytes) -> None:
    with pytest.raises(CallError) as refused:
        Codec.JSON.read(raw, SubscribeRequest)
    assert (refused.value.code, refused.value.message) == (CallCode.INVALID_ARGUMENT, "not a SubscribeRequest in JSON")
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def subscribing(key: str, spelled: str = "hmacKeys") -> bytes:
    return json.dumps({"subscriptions": [{"topic": "t", spelled: [{"key": key}]}]}).encode()


@given(st.binary(max_size=50), st.booleans(), st.booleans(), st.sampled_from(["hmacKeys", "hmac_keys"]))
def test_a_key_is_base64_of_either_alphabet_padded_or_not(key: bytes, url: bool, padded: bool, spelled: str) -> None:
    text = (urlsafe_b64encode if url else b64encode)(key).decode()
    raw = subscribing(text if padded else text.rstrip("="), spelled)
    assert Codec.JSON.read(raw, SubscribeWithMetadataRequest).subscriptions[0].hmac_keys[0].key == key


@pytest.mark.parametrize(
    "key",
    ["!!!", "A", "AAAAA", "A===", "AA=", "AAA==", "AAAA=", "AAAA====", "=", "+_AA", "AA AA", "AAAA\n", "ÄAAA", "AA=A"],
)
@pytest.mark.parametrize("spelled", ["hmacKeys", "hmac_keys"])
def test_a_key_that_is_no_base64_is_refused(key: str, spelled: str) -> None:
    with pytest.raises(CallError) as refused:
        Codec.JSON.read(subscribing(key, spelled), SubscribeWithMetadataRequest)
    assert refused.value.code is CallCode.INVALID_ARGUMENT
    assert key not in refused.value.message


@pytest.mark.parametrize("name", ["topics", "subscriptions"])
def test_json_with_too_many_topics_is_refused_by_the_rule_s_name(name: str) -> None:
    kind = SubscribeRequest if name == "topics" else SubscribeWithMetadataRequest
    with pytest.raises(CallError, match=f"at most {MOST_RULES} topics in one call"):
        Codec.JSON.read(json.dumps({name: [{}] * (MOST_RULES + 1)}).encode(), kind)


@pytest.mark.parametrize("spelled", ["hmacKeys", "hmac_keys"])
def test_json_with_too_many_keys_of_a_topic_is_refused_by_the_rule_s_name(spelled: str) -> None:
    raw = json.dumps({"subscriptions": [{spelled: [{}] * (MOST_KEYS + 1)}]}).encode()
    with pytest.raises(CallError, match=f"at most {MOST_KEYS} keys for one topic"):
        Codec.JSON.read(raw, SubscribeWithMetadataRequest)


def test_unknown_fields_of_json_are_passed_over_however_long_they_are() -> None:
    long = [0] * (MOST_RULES + 1)
    beside = {"installationId": "i", "later": long, "subscriptions": long}
    assert Codec.JSON.read(json.dumps(beside).encode(), SubscribeRequest) == SubscribeRequest(installation_id="i")
    within = {"subscriptions": [{"topic": "t", "later": long, "hmacKeys": [{"later": long}]}]}
    assert Codec.JSON.read(json.dumps(within).encode(), SubscribeWithMetadataRequest).subscriptions[0].topic == "t"


@pytest.mark.parametrize("inner", [b'{"\\ud800":1}', b'{"hmacKeys":[{"\\udfff":1}]}'])
def test_a_name_within_that_is_no_text_is_refused(inner: bytes) -> None:
    with pytest.raises(CallError) as refused:
        Codec.JSON.read(b'{"subscriptions":[' + inner + b"]}", SubscribeWithMetadataRequest)
    assert refused.value.code is CallCode.INVALID_ARGUMENT


@pytest.mark.parametrize("raw", [b"\x0a\x05ab", b"\x0a\x01\xff", b"\xff" * 20, b"\x08"])
def test_protobuf_that_is_no_such_message_is_refused(raw: bytes) -> None:
    with pytest.raises(CallError) as refused:
        Codec.PROTO.read(raw, SubscribeRequest)
    assert refused.value.code is CallCode.INVALID_ARGUMENT


def test_codes_have_the_statuses_and_numbers_of_the_protocols() -> None:
    """https://connectrpc.com/docs/protocol#error-codes and https://grpc.io/docs/guides/status-codes"""
    assert {code.word: (code.status, code.number) for code in CallCode} == {
        "invalid_argument": (400, 3),
        "deadline_exceeded": (504, 4),
        "not_found": (404, 5),
        "already_exists": (409, 6),
        "resource_exhausted": (429, 8),
        "failed_precondition": (400, 9),
        "unimplemented": (501, 12),
        "unavailable": (503, 14),
        "unauthenticated": (401, 16),
    }


def test_every_problem_that_the_common_functions_raise_has_a_code() -> None:
    of_other_routes = {
        ProblemKind.MALFORMED,
        ProblemKind.BAD_REQUEST,
        ProblemKind.LOGIN_FAILED,
        ProblemKind.LOGIN_OFF,
        ProblemKind.DIRECT_PUSH_OFF,
        ProblemKind.WRONG_METHOD,
        ProblemKind.RULES_CHANGED,
        ProblemKind.WRONG_CODE,
        ProblemKind.CODE_EXPIRED,
        ProblemKind.ALREADY_ACTIVE,
        ProblemKind.UNSUPPORTED_MEDIA_TYPE,
    }
    assert _CODES.keys() == set(ProblemKind) - of_other_routes
